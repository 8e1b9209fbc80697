/* test-xml-text.c - answers of an object store, and names as its signature needs them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "ckpt/tiers/s3.h"
#include "ckpt/tiers/xml_text.h"

static struct xml_text text_of(const char *text)
{
    return (struct xml_text){ text, text + strlen(text) };
}

static void elements_are_found_one_after_the_other(void **state)
{
    struct xml_text text = text_of("<L><Part><N>1</N></Part><Part><N>2</N></Part></L>"), part;
    char value[8];

    (void)state;
    assert_true(xml_element(&text, "Part", &part));
    assert_true(xml_value(part, "N", value, sizeof(value)));
    assert_string_equal(value, "1");
    assert_true(xml_element(&text, "Part", &part));
    assert_true(xml_value(part, "N", value, sizeof(value)));
    assert_string_equal(value, "2");
    assert_false(xml_element(&text, "Part", &part));
}

static void values_are_decoded_and_bounded(void **state)
{
    char value[8];

    (void)state;
    assert_true(xml_value(text_of("<E>&quot;a&amp;b&quot;</E>"), "E", value, sizeof(value)));
    assert_string_equal(value, "\"a&b\"");
    assert_false(xml_value(text_of("<E>12345678</E>"), "E", value, sizeof(value)));
    assert_false(xml_value(text_of("<E>a&unknown;</E>"), "E", value, sizeof(value)));
    assert_false(xml_value(text_of("<E>a\033b</E>"), "E", value, sizeof(value)));
    assert_false(xml_value(text_of("<E>cut"), "E", value, sizeof(value)));
}

static void names_are_encoded_as_the_signature_needs(void **state)
{
    char out[32];

    (void)state;
    assert_true(s3_encode("a/b c+=~.-_", true, out, sizeof(out)));
    assert_string_equal(out, "a/b%20c%2B%3D~.-_");
    assert_true(s3_encode("a/\xc3\xbc", false, out, sizeof(out)));
    assert_string_equal(out, "a%2F%C3%BC");
    assert_false(s3_encode("much too long", true, out, 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_found_one_after_the_other),
        cmocka_unit_test(values_are_decoded_and_bounded),
        cmocka_unit_test(names_are_encoded_as_the_signature_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
