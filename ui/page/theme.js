// Day, night, or as the system says: set before anything is drawn.
(() => {
    const theme = localStorage.getItem('tenon-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
