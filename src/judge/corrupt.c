/* corrupt.c - a job that goes on, and computes the wrong thing.
 *
 * Nothing is slow and nobody fails, so only the numbers can tell: digests of parameters that
 * should be equal on all replicas or should change, losses and gradient norms that are not finite or
 * jump.  What is said rests on who was first: one step later the gradients have carried
 * it to everybody.
 */
#include "judge/corrupt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/corrupt_parts.h"

int corrupt_book_create(struct corrupt_book **ret)
{
    struct corrupt_book *book = calloc(1, sizeof(*book));

    if (!book)
        return -ENOMEM;
    *ret = book;
    return 0;
}

void corrupt_book_destroy(struct corrupt_book *book)
{
    if (!book)
        return;
    map_fini(&book->replicas.clean);
    map_fini(&book->replicas.place);
    map_fini(&book->replicas.updating);
    free(book->replicas.part);
    free(book->replicas.hold);
    free(book->rank);
    free(book);
}

/* What was clean, and when, stays known: the newest clean step is what people ask for. */
void corrupt_attempt(struct corrupt_book *book)
{
    map_fini(&book->replicas.place);
    book->replicas.place = (struct map){ 0 };
    map_fini(&book->replicas.updating); /* by shape: those of the next attempt are others */
    book->replicas.parts = 0;
    replicas_forget(book);
    if (book->rank)
        memset(book->rank, 0, book->world * sizeof(*book->rank));
    book->finite = false;
    book->streak = (struct streak){ 0 };
}

/* Parts take turns, so a part that is wrong is not seen again for many steps. */
static void wrong_stays(struct court *court, const struct corrupt_book *book)
{
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        struct entry *entry = book->rank[rank].wrong ? corrupt_open(court, rank) : NULL;

        if (entry)
            entry->seen_step = court->whole->step;
    }
}

void corrupt_numbers(struct court *court)
{
    struct corrupt_book *book = court->corrupt;

    if (!court->whole || !ARRAY_FIT_ZERO(book->rank, book->world, court->model.world))
        return;
    if (book->streak.steps == 0) /* what is not finite any more differs for that reason alone */
        replicas_step(court, book);
    else
        replicas_forget(book);
    values_step(court, book);
    wrong_stays(court, book);
}

const struct judge judge_corrupt = { .name = "corrupt",
                                     .step = corrupt_numbers,
                                     .needs = NEEDS_NOTHING };
