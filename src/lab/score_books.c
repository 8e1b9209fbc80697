/* score_books.c - the ledgers of all cases with a fault against those of their healthy twins.
 *
 * Two healthy runs with the same seed do not take equally long: a machine has moods.  So the slightest faults have two
 * twins, whose mean is compared; and what two twins differ by, at most, is how finely runs can be
 * compared on this machine.  An error below that may be the machine's as well as the ledger's.
 */
#include "lab/score_books.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "lab/score_parts.h"

#define GOOD 0.05
#define BLUR_MOST 0.01 /* a machine more restless than this tells nothing about slight faults */

struct twins { /* of one case */
    struct score_ledger mean;
    uint32_t count;
    double apart; /* share of a run by which they differ */
};

static void ledger_add(struct score_ledger *sum, const struct score_ledger *more, double weight)
{
    sum->whole += weight * more->whole;
    for (size_t i = 0; i < LEDGER_BUCKETS; i++)
        sum->bucket[i] += weight * more->bucket[i];
}

static struct twins twins_of(uint32_t number, const struct score_case *cases,
                             const struct score_result *results, uint32_t count)
{
    struct twins twins = { .count = 0 };
    double least = INFINITY, most = 0;

    for (uint32_t i = 0; i < count; i++)
        twins.count += cases[i].twin == number && results[i].ran;
    for (uint32_t i = 0; i < count; i++) {
        if (cases[i].twin != number || !results[i].ran)
            continue;
        ledger_add(&twins.mean, &results[i].ledger, 1.0 / twins.count);
        least = MIN(least, results[i].ledger.whole);
        most = MAX(most, results[i].ledger.whole);
    }
    twins.apart = twins.count > 1 && least > 0 ? most / least - 1 : 0;
    return twins;
}

static struct score_book *family_book(struct score_books *books, const char *family)
{
    for (uint32_t i = 0; i < books->families; i++) {
        if (strcmp(books->family[i].name, family) == 0)
            return &books->family[i];
    }
    if (books->families == COUNT(books->family))
        return NULL;
    books->family[books->families].name = family;
    return &books->family[books->families++];
}

void score_books_fill(const struct score_case *cases, const struct score_result *results,
                      uint32_t count, struct score_books *books)
{
    struct twins twins;

    *books = (struct score_books){ 0 };
    for (uint32_t i = 0; i < count; i++)
        books->blur = MAX(books->blur, twins_of(i, cases, results, count).apart);
    for (uint32_t i = 0; i < count; i++) {
        struct score_book *family, *all = &books->all;
        double due, found, error;

        if (!results[i].ran || (twins = twins_of(i, cases, results, count)).count == 0)
            continue;
        error = score_ledger_compare(&cases[i], &results[i].ledger, &twins.mean, &due, &found);
        books->at[books->count] = (struct score_booked){ i, due, found, error };
        books->error[books->count++] = error;
        books->good += fabs(error) <= GOOD;
        books->blurred +=
            fabs(error) > GOOD && fabs(error * due) <= books->blur * results[i].ledger.whole;
        books->most = MAX(books->most, fabs(error));
        all->due += due;
        all->found += found;
        family = family_book(books, score_family(&cases[i]));
        if (family) {
            family->due += due;
            family->found += found;
        }
    }
}

double score_book_error(const struct score_book *book)
{
    return book->due > 0 ? book->found / book->due - 1 : 0;
}

bool score_books_good(const struct score_books *books)
{
    for (uint32_t i = 0; i < books->families; i++) {
        if (fabs(score_book_error(&books->family[i])) > GOOD)
            return false;
    }
    return books->good + (books->blur <= BLUR_MOST ? books->blurred : 0) == books->count;
}
