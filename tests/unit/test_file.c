/* test_file.c - io/file: a file is read to the size it has, and appears whole or not at all. */
#include "io/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "io_support.h"

#define OLD "what was there before"
#define NEW "what is written now"

static lnt_status write_file(lnt_ctx *ctx, const char *path, const char *text)
{
    lnt_file_writer w;
    lnt_status status = lnt_file_create(ctx, path, &w);
    if (!status) status = lnt_file_write(&w, text, strlen(text));
    return status ? status : lnt_file_commit(&w);
}

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_file_writer w;
    assert_ok(ctx, lnt_file_create(ctx, "a", &w));
    assert_ok(ctx, lnt_file_write(&w, "one ", 4));
    assert_ok(ctx, lnt_file_write(&w, "", 0));
    assert_ok(ctx, lnt_file_write(&w, "two", 3));
    assert_ok(ctx, lnt_file_commit(&w));
    assert_file_holds("a", "one two", 7);
    char text[7];
    lnt_file_reader r;
    assert_ok(ctx, lnt_file_open(ctx, "a", &r));
    assert_int_equal(r.size, 7);
    assert_ok(ctx, lnt_file_read(&r, text, 2));
    assert_int_equal(r.offset, 2);
    assert_ok(ctx, lnt_file_read(&r, text + 2, 5));
    assert_memory_equal(text, "one two", 7);
    lnt_file_close(&r);
    lnt_file_close(&r);
    unlink("a");
    lnt_ctx_destroy(ctx);
}

static void what_cannot_be_read_is_refused_with_path_and_reason(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_file_reader r;
    assert_refused(ctx, lnt_file_open(ctx, "none", &r), LNT_ERR_FILE,
                   "cannot read 'none': No such file or directory");
    assert_refused(ctx, lnt_file_open(ctx, ".", &r), LNT_ERR_FILE,
                   "cannot read '.': Is a directory");
    assert_refused(ctx, lnt_file_open(ctx, "/dev/zero", &r), LNT_ERR_FILE,
                   "cannot read '/dev/zero': it is not a regular file");
    lnt_ctx_destroy(ctx);
}

static void pipe_without_writer_is_refused_and_not_waited_for(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_file_reader r;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    alarm(20);
    assert_refused(ctx, lnt_file_open(ctx, "pipe", &r), LNT_ERR_FILE, "not a regular file");
    alarm(0);
    unlink("pipe");
    lnt_ctx_destroy(ctx);
}

static void file_that_shrinks_while_it_is_read_is_refused(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    char text[16];
    lnt_file_reader r;
    put_file("a", "0123456789", 10);
    assert_ok(ctx, lnt_file_open(ctx, "a", &r));
    assert_ok(ctx, lnt_file_read(&r, text, 4));
    assert_int_equal(truncate("a", 7), 0);
    assert_refused(ctx, lnt_file_read(&r, text, 6), LNT_ERR_FILE,
                   "cannot read 'a': it ended after 7 bytes, 3 more were expected");
    lnt_file_close(&r);
    unlink("a");
    lnt_ctx_destroy(ctx);
}

static void file_changes_at_commit_and_not_before(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_file_writer w;
    put_file("a", OLD, strlen(OLD));
    assert_ok(ctx, lnt_file_create(ctx, "a", &w));
    assert_ok(ctx, lnt_file_write(&w, NEW, strlen(NEW)));
    assert_file_holds("a", OLD, strlen(OLD));
    assert_int_equal(count_files(), 2);
    assert_ok(ctx, lnt_file_commit(&w));
    lnt_file_abort(&w);
    assert_file_holds("a", NEW, strlen(NEW));
    assert_int_equal(count_files(), 1);
    unlink("a");
    lnt_ctx_destroy(ctx);
}

static void abort_leaves_the_previous_file_and_nothing_else(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_file_writer w;
    put_file("a", OLD, strlen(OLD));
    assert_ok(ctx, lnt_file_create(ctx, "a", &w));
    assert_ok(ctx, lnt_file_write(&w, NEW, strlen(NEW)));
    lnt_file_abort(&w);
    lnt_file_abort(&w);
    assert_file_holds("a", OLD, strlen(OLD));
    unlink("a");
    assert_ok(ctx, lnt_file_create(ctx, "b", &w));
    lnt_file_abort(&w);
    assert_int_equal(count_files(), 0);
    lnt_ctx_destroy(ctx);
}

/* A limit on the size of files stands for a disk that fills up in the middle of a write. */
static void write_that_fails_half_way_leaves_the_previous_file_and_nothing_else(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    static const char big[1 << 16];
    lnt_file_writer w;
    struct rlimit before, limit;
    put_file("a", OLD, strlen(OLD));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const lnt_status created = lnt_file_create(ctx, "a", &w);
    const lnt_status written = created ? created : lnt_file_write(&w, big, sizeof big);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(created, LNT_OK);
    assert_refused(ctx, written, LNT_ERR_FILE, "cannot write 'a': File too large");
    assert_file_holds("a", OLD, strlen(OLD));
    assert_int_equal(count_files(), 1);
    unlink("a");
    lnt_ctx_destroy(ctx);
}

static void full_disk_is_named_as_the_reason(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    assert_refused(ctx, write_file(ctx, "/dev/full", NEW), LNT_ERR_FILE,
                   "cannot write '/dev/full': No space left on device");
    lnt_ctx_destroy(ctx);
}

static void rename_that_fails_takes_the_temporary_away(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_file_writer w;
    assert_ok(ctx, lnt_file_create(ctx, "a", &w));
    assert_ok(ctx, lnt_file_write(&w, NEW, strlen(NEW)));
    assert_int_equal(mkdir("a", 0700), 0);
    assert_refused(ctx, lnt_file_commit(&w), LNT_ERR_FILE, "cannot write 'a': Is a directory");
    assert_int_equal(rmdir("a"), 0);
    assert_int_equal(count_files(), 0);
    lnt_ctx_destroy(ctx);
}

static void device_is_written_as_it_stands(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    struct stat st;
    assert_ok(ctx, write_file(ctx, "/dev/null", NEW));
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    lnt_ctx_destroy(ctx);
}

static void pipe_receives_what_is_written(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    char text[64];
    assert_int_equal(mkfifo("pipe", 0600), 0);
    const int fd = open("pipe", O_RDWR | O_NONBLOCK);
    assert_true(fd >= 0);
    assert_ok(ctx, write_file(ctx, "pipe", NEW));
    assert_int_equal(read(fd, text, sizeof text), (int)strlen(NEW));
    assert_memory_equal(text, NEW, strlen(NEW));
    close(fd);
    unlink("pipe");
    lnt_ctx_destroy(ctx);
}

/* What /dev/stdout is when the file behind it was deleted. */
static void open_file_without_a_name_is_written_as_it_stands(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    char path[64], text[64];
    const int fd = open("a", O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    unlink("a");
    put_file("a (deleted)", OLD, strlen(OLD)); /* the name the system gives it, but another file */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_ok(ctx, write_file(ctx, path, NEW));
    assert_int_equal(read(fd, text, sizeof text), (int)strlen(NEW));
    assert_memory_equal(text, NEW, strlen(NEW));
    assert_file_holds("a (deleted)", OLD, strlen(OLD));
    close(fd);
    unlink("a (deleted)");
    lnt_ctx_destroy(ctx);
}

static void link_is_followed_and_stays_a_link(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    struct stat st;
    put_file("a", OLD, strlen(OLD));
    assert_int_equal(symlink("a", "link"), 0);
    assert_ok(ctx, write_file(ctx, "link", NEW));
    assert_int_equal(lstat("link", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_file_holds("a", NEW, strlen(NEW));
    unlink("a");
    assert_refused(ctx, write_file(ctx, "link", NEW), LNT_ERR_FILE,
                   "cannot write 'link': it is a link to a file that does not exist");
    assert_int_equal(count_files(), 1);
    unlink("link");
    lnt_ctx_destroy(ctx);
}

static void replaced_file_keeps_its_permissions(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    struct stat st;
    put_file("a", OLD, strlen(OLD));
    assert_int_equal(chmod("a", 0640), 0);
    assert_ok(ctx, write_file(ctx, "a", NEW));
    assert_int_equal(stat("a", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    unlink("a");
    lnt_ctx_destroy(ctx);
}

static void read_only_file_is_not_replaced(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    const uid_t user = geteuid();
    put_file("a", OLD, strlen(OLD));
    assert_int_equal(chmod("a", 0444), 0);
    if (user == 0) { /* root may write it, so be someone who may only write the folder */
        assert_int_equal(chmod(".", 0777), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    const lnt_status status = write_file(ctx, "a", NEW);
    if (user == 0) assert_int_equal(seteuid(0), 0);
    assert_refused(ctx, status, LNT_ERR_FILE, "cannot write 'a': Permission denied");
    assert_file_holds("a", OLD, strlen(OLD));
    unlink("a");
    lnt_ctx_destroy(ctx);
}

static void temporary_of_another_run_is_left_alone(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    char stale[64];
    snprintf(stale, sizeof stale, ".linnet-%ld-0.tmp", (long)getpid());
    put_file(stale, OLD, strlen(OLD));
    assert_ok(ctx, write_file(ctx, "a", NEW));
    assert_file_holds(stale, OLD, strlen(OLD));
    assert_file_holds("a", NEW, strlen(NEW));
    assert_int_equal(count_files(), 2);
    unlink(stale);
    unlink("a");
    lnt_ctx_destroy(ctx);
}

static void two_writers_of_one_path_do_not_mix(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    lnt_file_writer one, two;
    assert_ok(ctx, lnt_file_create(ctx, "a", &one));
    assert_ok(ctx, lnt_file_create(ctx, "a", &two));
    assert_ok(ctx, lnt_file_write(&one, OLD, strlen(OLD)));
    assert_ok(ctx, lnt_file_write(&two, NEW, strlen(NEW)));
    assert_ok(ctx, lnt_file_commit(&one));
    assert_file_holds("a", OLD, strlen(OLD));
    assert_ok(ctx, lnt_file_commit(&two));
    assert_file_holds("a", NEW, strlen(NEW));
    assert_int_equal(count_files(), 1);
    unlink("a");
    lnt_ctx_destroy(ctx);
}

static void path_that_cannot_be_written_is_refused_at_once(void **state)
{
    (void)state;
    lnt_ctx *ctx = context_new(1, NULL);
    char longest[600] = { 0 };
    memset(longest, 'x', sizeof longest - 1);
    assert_refused(ctx, write_file(ctx, "none/a", NEW), LNT_ERR_FILE,
                   "cannot write 'none/a': No such file or directory");
    assert_refused(ctx, write_file(ctx, ".", NEW), LNT_ERR_FILE,
                   "cannot write '.': Is a directory");
    assert_refused(ctx, write_file(ctx, "none/", NEW), LNT_ERR_FILE, "No such file");
    assert_refused(ctx, write_file(ctx, "", NEW), LNT_ERR_FILE, "No such file");
    assert_refused(ctx, write_file(ctx, longest, NEW), LNT_ERR_FILE, "File name too long");
    assert_int_equal(count_files(), 0);
    lnt_ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(what_cannot_be_read_is_refused_with_path_and_reason),
        cmocka_unit_test(pipe_without_writer_is_refused_and_not_waited_for),
        cmocka_unit_test(file_that_shrinks_while_it_is_read_is_refused),
        cmocka_unit_test(file_changes_at_commit_and_not_before),
        cmocka_unit_test(abort_leaves_the_previous_file_and_nothing_else),
        cmocka_unit_test(write_that_fails_half_way_leaves_the_previous_file_and_nothing_else),
        cmocka_unit_test(full_disk_is_named_as_the_reason),
        cmocka_unit_test(rename_that_fails_takes_the_temporary_away),
        cmocka_unit_test(device_is_written_as_it_stands),
        cmocka_unit_test(pipe_receives_what_is_written),
        cmocka_unit_test(open_file_without_a_name_is_written_as_it_stands),
        cmocka_unit_test(link_is_followed_and_stays_a_link),
        cmocka_unit_test(replaced_file_keeps_its_permissions),
        cmocka_unit_test(read_only_file_is_not_replaced),
        cmocka_unit_test(temporary_of_another_run_is_left_alone),
        cmocka_unit_test(two_writers_of_one_path_do_not_mix),
        cmocka_unit_test(path_that_cannot_be_written_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
