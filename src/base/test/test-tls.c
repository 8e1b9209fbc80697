/* A certificate names what it is asked to name, and its key stays.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/tls.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "core/clean.h"

static int setup(void **state)
{
    char *directory = strdup("/tmp/lockstep-tls.XXXXXX");

    assert_non_null(mkdtemp(directory));
    *state = directory;
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
    assert_int_equal(system(command), 0);
    free(*state);
    return 0;
}

static bool names(const struct tls *tls, const char *name, bool address)
{
    BIO *bio = BIO_new_mem_buf(tls->cert_pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    bool yes = address ? X509_check_ip_asc(cert, name, 0) == 1
                       : X509_check_host(cert, name, 0, 0, NULL) == 1;

    X509_free(cert);
    BIO_free(bio);
    return yes;
}

static void names_every_address_that_it_is_told(void **state)
{
    static const char *const wanted[] = { "192.0.2.7", "2001:db8::7", "ctl.example" };
    struct tls tls;

    assert_int_equal(tls_read_or_make(*state, wanted, COUNT(wanted), &tls, NULL), 0);
    assert_false(tls.reissued);
    assert_true(names(&tls, "127.0.0.1", true));
    assert_true(names(&tls, "::1", true));
    assert_true(names(&tls, "192.0.2.7", true));
    assert_true(names(&tls, "2001:db8::7", true));
    assert_true(names(&tls, "localhost", false));
    assert_true(names(&tls, "ctl.example", false));
    assert_false(names(&tls, "192.0.2.8", true));
    tls_fini(&tls);
}

static void keeps_its_key_when_names_change(void **state)
{
    static const char *const first[] = { "one.example" }, *const second[] = { "192.0.2.9" };
    struct tls before, after, again;

    assert_int_equal(tls_read_or_make(*state, first, 1, &before, NULL), 0);
    assert_int_equal(tls_read_or_make(*state, second, 1, &after, NULL), 0);
    assert_true(after.reissued);
    assert_string_equal(before.pin, after.pin);
    assert_string_not_equal(before.fingerprint, after.fingerprint);
    assert_true(names(&after, "192.0.2.9", true));
    assert_int_equal(tls_read_or_make(*state, second, 1, &again, NULL), 0);
    assert_false(again.reissued);
    assert_string_equal(after.fingerprint, again.fingerprint);
    tls_fini(&before);
    tls_fini(&after);
    tls_fini(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_every_address_that_it_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_its_key_when_names_change, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
