/* Addresses are what they look like, or refused.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"

static void reads_hosts_and_ports(void **state)
{
    static const struct {
        const char *text, *host;
        bool has_port;
        uint16_t port;
    } good[] = {
        { "localhost", "localhost", false, 0 },          { "LocalHost:80", "localhost", true, 80 },
        { "127.0.0.1:65535", "127.0.0.1", true, 65535 }, { "[::1]", "::1", false, 0 },
        { "[FE80::1%eth0]:0", "fe80::1%eth0", true, 0 }, { "a_b-c.d:00080", "a_b-c.d", true, 80 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct address at;

        assert_int_equal(address_parse(good[i].text, strlen(good[i].text), &at), 0);
        assert_string_equal(at.host, good[i].host);
        assert_int_equal(at.has_port, good[i].has_port);
        assert_int_equal(at.port, good[i].port);
    }
}

static void refuses_everything_else(void **state)
{
    static const char *const bad[] = {
        "",
        ":",
        ":80",
        "a:",
        "a:65536",
        "a:99999",
        "a:-1",
        "a:+1",
        "a: 1",
        "a:1 ",
        "a:1x",
        "a:0x1",
        "a:000080",
        "a:18446744073709551617",
        "a b",
        "a/b",
        "a@b",
        "a?b",
        "::1",
        "::1:80",
        "[::1",
        "[]",
        "[]:1",
        "[::1]80",
        "[::1]:",
        "[::1]:1:1",
        "[a/b]",
        "a\nb",
        "\xe2\x80\xae:1",
    };
    struct address at, before;

    (void)state;
    memset(&at, 0x5a, sizeof(at));
    before = at;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(address_parse(bad[i], strlen(bad[i]), &at), -EINVAL);
    assert_int_equal(address_parse("a\0b", 3, &at), -EINVAL);
    assert_memory_equal(&at, &before, sizeof(at)); /* outputs are set only on success */
}

static void reads_urls_without_a_path(void **state)
{
    static const char *const bad[] = {
        "",          "http:",      "http://",       "http:///",   "https://",   "ftp://a",
        "HTTP://a",  "http://a/b", "http://a:80/b", "http://u@a", "http://a:0", "http://a:99999",
        "http://a:", "http://a?b", "http://a#b",    " http://a",  "http://a ",
    };
    struct address_url url, before;

    (void)state;
    assert_int_equal(address_url_parse("http://a:80", &url), 0);
    assert_false(url.tls);
    assert_int_equal(url.at.port, 80);
    assert_int_equal(address_url_parse("https://[::1]:8787//", &url), 0);
    assert_true(url.tls);
    assert_string_equal(url.at.host, "::1");
    assert_int_equal(url.size, strlen("https://[::1]:8787"));
    memcpy(&before, &url, sizeof(url));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(address_url_parse(bad[i], &url), -EINVAL);
    assert_memory_equal(&url, &before, sizeof(url));
}

static void listens_where_it_is_told(void **state)
{
    struct sockaddr_storage at;
    socklen_t size;

    (void)state;
    assert_int_equal(address_listen("localhost:8787", &at, &size, NULL), 0);
    assert_int_equal(size, sizeof(struct sockaddr_in));
    assert_int_equal(ntohs(((struct sockaddr_in *)&at)->sin_port), 8787);
    assert_true(sockaddr_is_loopback((struct sockaddr *)&at));
    assert_int_equal(address_listen("[::]:0", &at, &size, NULL), 0);
    assert_int_equal(size, sizeof(struct sockaddr_in6));
    assert_false(sockaddr_is_loopback((struct sockaddr *)&at));
    assert_int_equal(address_listen("127.0.0.1", &at, &size, NULL), -EINVAL);
    assert_int_equal(address_listen("127.1:80", &at, &size, NULL), -EINVAL);
    assert_int_equal(address_listen("127.0.0.1:99999", &at, &size, NULL), -EINVAL);
    assert_int_equal(address_listen("controller.example:80", &at, &size, NULL), -EINVAL);
}

static void knows_loopback_by_its_text(void **state)
{
    static const char *const yes[] = { "localhost", "127.0.0.1", "127.8.9.10", "::1",
                                       "::ffff:127.0.0.1" };
    static const char *const no[] = { "",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil.example",
                                      "0.0.0.0",
                                      "10.0.0.1",
                                      "::",
                                      "::2",
                                      "127.1",
                                      "2130706433" };

    (void)state;
    for (size_t i = 0; i < COUNT(yes); i++)
        assert_true(address_is_loopback(yes[i]));
    for (size_t i = 0; i < COUNT(no); i++)
        assert_false(address_is_loopback(no[i]));
}

static void compares_text_with_addresses(void **state)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

    (void)state;
    inet_pton(AF_INET, "10.1.2.3", &v4.sin_addr);
    assert_true(address_is("10.1.2.3", (struct sockaddr *)&v4));
    assert_false(address_is("10.1.2.4", (struct sockaddr *)&v4));
    assert_false(address_is("name", (struct sockaddr *)&v4));
    inet_pton(AF_INET6, "::ffff:10.1.2.3", &v6.sin6_addr);
    assert_true(address_is("10.1.2.3", (struct sockaddr *)&v6));
    inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr);
    assert_true(address_is("2001:db8:0::1", (struct sockaddr *)&v6));
    assert_false(address_is("2001:db8::2", (struct sockaddr *)&v6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_hosts_and_ports),
        cmocka_unit_test(refuses_everything_else),
        cmocka_unit_test(reads_urls_without_a_path),
        cmocka_unit_test(listens_where_it_is_told),
        cmocka_unit_test(knows_loopback_by_its_text),
        cmocka_unit_test(compares_text_with_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
