"""What must hold of every view of tenon ui: it fits on 400 pixels, every control has a name, every text can be read by day and
in the dark, and the keyboard is enough. For page.py.
"""
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

CONTRAST = 4.5  # of WCAG 2, level AA, for texts of usual size
TABS = 80

# Every text that is shown, and every placeholder, with less contrast to what is behind it than arguments[0].
FAINT = """
const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
const light = (color) => numbers(color).slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
function behind(node) {
    for (; node; node = node.parentElement) {
        const color = getComputedStyle(node).backgroundColor;
        if ((numbers(color)[3] ?? 1) === 1) return light(color);
    }
    throw new Error('nothing has a background');
}
function contrast(node, pseudo) {
    const style = getComputedStyle(node, pseudo);
    const text = light(node instanceof SVGElement ? style.fill : style.color), back = behind(node);
    return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
}
const says = (node) => [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
const shown = [...document.body.querySelectorAll('*')].filter((node) => node.getClientRects().length > 0);
const ratios = [...shown.filter((node) => says(node) || node.value).map((node) => [node, contrast(node)]),
    ...shown.filter((node) => node.placeholder).map((node) => [node, contrast(node, '::placeholder')])];
const low = ratios.filter(([, ratio]) => ratio < arguments[0])
    .map(([node, ratio]) => `${node.tagName} ${(node.textContent || node.name).slice(0, 40)}: ${ratio.toFixed(2)}`);
return { dark: behind(document.body) < 0.1, texts: ratios.length, low };
"""


# Each view, and what shows that it is there and not empty.
def contents(task):
    return {"": "tbody tr", "tasks": "tbody tr", f"tasks/{task}": ".timeline", "dead": "tbody tr", "flows": "tbody tr",
            "flows/1": ".tree", "limits": "tbody tr", "schedules": "tbody tr", "workers": "tbody tr", "kinds": "tbody tr", "kinds/a": ".numbers", "outbox": ".numbers", "audit": "tbody tr"}


def each_view(page, task):
    for path, content in contents(task).items():
        page.go(path)
        page.until(f"waited for {content} of /{path}", lambda: page.find(f"main {content}"))
        yield path


def fits(page, what):
    wide = page.driver.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1], f"{what} is {wide[0]} wide, the window {wide[1]}"


def has_names(page, what):
    nameless = page.driver.execute_script(
        """return [...document.querySelectorAll('button, input, select, a, table')].filter((node) =>
               !(node.getAttribute('aria-label') || node.textContent.trim() || node.labels?.length || node.caption)).length""")
    assert nameless == 0, f"{what}: {nameless} controls without a name"


def can_be_read(page, what, scheme):
    seen = page.driver.execute_script(FAINT, CONTRAST)
    assert seen["dark"] == (scheme == "dark") and seen["texts"] > 0, f"{what}: {seen}"
    assert not seen["low"], f"{what}, {scheme}: {seen['low']}"


def show_well(page, task, scheme, width):
    page.driver.set_window_size(width, 900)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    for path in each_view(page, task):
        fits(page, f"/{path}")
        has_names(page, f"/{path}")
        can_be_read(page, f"/{path}", scheme)
    page.go(f"tasks/{task}")
    page.button("Retry")
    page.shows("Why (for the audit)")
    fits(page, "a question")
    can_be_read(page, "a question", scheme)
    page.button("No")


# A graph that is too wide for 400 pixels can be scrolled, and is patched every two seconds.
def stays_scrolled(page):
    page.driver.set_window_size(400, 900)
    page.go("flows/1")
    page.until("waited for the graph", lambda: page.find(".dag"))
    page.driver.execute_script("document.querySelector('.scroll').scrollLeft = 20")
    page.redrawn()
    assert page.driver.execute_script("return document.querySelector('.scroll').scrollLeft") == 20


# --- the keyboard ---

def press(page, *keys):
    ActionChains(page.driver).send_keys(*keys).perform()


def focused(page):
    return page.driver.execute_script(
        "const a = document.activeElement; return a.dataset.key ?? (a.id || a.name || a.className || a.tagName)")


def tab_to(page, key):
    passed = []
    while focused(page) != key:
        assert len(passed) < TABS, f"no Tab leads to {key}: {passed}"
        press(page, Keys.TAB)
        passed.append(focused(page))


def keyboard_is_enough(page):
    page.go("tasks?state=dead&kind=card")
    task = page.first("tbody a")
    tab_to(page, f"l-{task}")
    page.redrawn()
    assert focused(page) == f"l-{task}", f"the list was drawn again, and the focus is at {focused(page)}"
    press(page, Keys.ENTER)
    page.shows("failed once")
    assert focused(page) == "main", focused(page)
    tab_to(page, f"retry-{task}")
    press(page, Keys.ENTER)
    page.shows("Why (for the audit)")
    press(page, Keys.ESCAPE)
    page.until("waited for the question to go", lambda: not page.find("dialog[open]"))
    assert focused(page) == f"retry-{task}", focused(page)
    press(page, Keys.ENTER)
    page.shows("Why (for the audit)")
    tab_to(page, "why")
    press(page, "by the keyboard")
    tab_to(page, "yes")
    press(page, Keys.ENTER)
    page.shows("1 task retried.")
