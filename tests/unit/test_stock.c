/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the boxes that wait is given, which is rehearsed, and which has to go. */
#include "bare_pool.h"

#define BOXES (STOCK_HOT_MAX + 8)

static struct pool *pool;
static struct shape *shape;

static void setup(void)
{
	pool = bare_pool(BOXES, WARM_READY);
	shape = &pool->shapes[0];
	shape->config.idle_ms = 1000;
}

static void teardown(void)
{
	bare_pool_free(pool);
}

TestSuite(stock, .init = setup, .fini = teardown);

static unsigned take(void)
{
	struct box *b = stock_take(pool, shape);

	cr_assert(b);
	return (unsigned)(b - pool->boxes);
}

Test(stock, the_newest_that_is_rehearsed_comes_first)
{
	stock_put(shape, 0, true);
	stock_put(shape, 1, false);
	stock_put(shape, 2, true);
	stock_put(shape, 3, false);
	cr_assert(shape->n_ready == 4 && shape->n_reserve == 2);
	cr_expect(take() == 2);
	cr_expect(take() == 0);
	cr_expect(shape->n_reserve == 2);
	cr_expect(take() == 3);
	cr_expect(take() == 1);
	cr_expect(shape->n_ready == 0 && shape->n_reserve == 0);
	cr_expect(!stock_take(pool, shape));
}

Test(stock, one_that_goes_leaves_the_others_where_they_were)
{
	for (unsigned i = 0; i < 6; i++)
		stock_put(shape, i, i % 2);
	stock_remove(shape, 2); /* of the reserve */
	stock_remove(shape, 3);
	stock_remove(shape, 3); /* is not there */
	cr_assert(shape->n_ready == 4 && shape->n_reserve == 2);
	cr_expect(take() == 5);
	cr_expect(take() == 1);
	cr_expect(take() == 4);
	cr_expect(take() == 0);
}

Test(stock, only_so_many_are_rehearsed)
{
	for (unsigned i = 0; i < STOCK_HOT_MAX - 1; i++)
		stock_put(shape, i, true);
	cr_expect(stock_wants_rehearsed(shape));
	shape->n_starting = 1;
	cr_expect(!stock_wants_rehearsed(shape));
	shape->n_starting = 0;
	for (unsigned i = STOCK_HOT_MAX - 1; i < BOXES; i++)
		stock_put(shape, i, false); /* those do not count */
	cr_expect(stock_wants_rehearsed(shape));
	cr_expect(stock_oldest_ns(pool, shape) == 0);
}

Test(stock, the_oldest_may_be_of_either_part)
{
	cr_expect(stock_oldest_ns(pool, shape) == UINT64_MAX);
	stock_put(shape, 3, false);
	cr_expect(stock_oldest_ns(pool, shape) == 3);
	stock_put(shape, 1, true);
	stock_put(shape, 2, true);
	cr_expect(stock_oldest_ns(pool, shape) == 1);
}

Test(stock, a_reserve_where_none_is_needed_is_renewed_when_it_is_quiet)
{
	uint64_t now = shape->claimed_ns = 1;

	stock_put(shape, 0, false);
	stock_put(shape, 1, true);
	stock_expire(pool, shape, 2, now + STOCK_CALM_NS - 1);
	cr_expect(shape->n_ready == 2, "somebody was here just now");
	shape->n_starting = 1;
	stock_expire(pool, shape, 2, now + STOCK_CALM_NS);
	cr_expect(shape->n_ready == 2, "one at a time");
	shape->n_starting = 0;
	pool->queued.n =
		1; /* for a box of another shape: this one would be made in a hurry again */
	stock_expire(pool, shape, 2, now + STOCK_CALM_NS);
	cr_expect(shape->n_ready == 2, "somebody waits");
	pool->queued.n = 0;
	stock_expire(pool, shape, 1, now + STOCK_CALM_NS);
	cr_expect(shape->n_ready == 2, "there are enough");
	stock_expire(pool, shape, 2, now + STOCK_CALM_NS);
	cr_expect(shape->n_ready == 1 && shape->n_reserve == 0);
	cr_expect(pool->boxes[0].state == WARM_ENDING);
	stock_expire(pool, shape, 2, now + STOCK_CALM_NS);
	cr_expect(shape->n_ready == 1);
}

Test(stock, more_than_are_wanted_end_after_a_while)
{
	uint64_t idle = UINT64_C(1000000000);

	stock_put(shape, 0, true);
	stock_put(shape, 1, true);
	stock_expire(pool, shape, 1, idle - 1);
	cr_expect(shape->n_ready == 2);
	stock_expire(pool, shape, 2, 2 * idle);
	cr_expect(shape->n_ready == 2, "both are wanted");
	stock_expire(pool, shape, 1, idle);
	cr_expect(shape->n_ready == 1 && take() == 1);
}
