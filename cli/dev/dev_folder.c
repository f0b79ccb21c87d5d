/* The folder that `tenon dev` makes where it is started, for servers of its own. */
#include "cli/dev/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 64, FILE_MODE = 0600 };

bool folder_write(const char *path, const char *text, struct fault *f)
{
    char new_path[PATH_BYTES];
    (void)snprintf(new_path, sizeof new_path, "%s.new", path);
    (void)unlink(new_path);
    int fd = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    bool ok = fd >= 0;
    for (size_t n = strlen(text), at = 0; ok && at < n;) {
        ssize_t written = write(fd, text + at, n - at);
        ok = written > 0;
        at += ok ? (size_t)written : 0;
    }
    ok = (fd < 0 || close(fd) == 0) && ok && rename(new_path, path) == 0;
    return ok || fault_set(f, FAULT_CONFIG, "could not write %s: %s", path, strerror(errno));
}

/* Whose lock it is, runs the servers in it; a lock ends with its process, however that ends. */
bool folder_open(int *ret, struct fault *f)
{
    *ret = -1;
    if (mkdir(DEV_FOLDER, 0711) != 0 && errno != EEXIST) {
        return fault_set(f, FAULT_CONFIG, "could not make the folder %s: %s", DEV_FOLDER,
                         strerror(errno));
    }
    int fd = open(DEV_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        bool is_locked = fd >= 0 && errno == EWOULDBLOCK;
        (void)fault_set(f, FAULT_CONFIG, "%s: %s", DEV_FOLDER,
                        is_locked ? "another tenon dev runs in this folder" : strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        return false;
    }
    *ret = fd;
    return folder_write(DEV_FOLDER "/.gitignore", "*\n", f) &&
           folder_write(DEV_FOLDER "/services", dev_services, f);
}
