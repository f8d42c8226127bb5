/* SPDX-License-Identifier: Apache-2.0 */
/* When a box whose run is over has to go. */
#include "bare_pool.h"
#include "base/clock.h"

#define BOXES (SPENT_MAX + 1)

static struct pool *pool;
static uint64_t now;

static void setup(void)
{
	pool = bare_pool(BOXES, WARM_RUNNING);
	pool->shapes[0].n_ready = 1; /* somebody else waits for code */
	now = pool->claimed_ns = clock_ns();
}

static void teardown(void)
{
	bare_pool_free(pool);
}

TestSuite(spent, .init = setup, .fini = teardown);

Test(spent, it_waits_for_a_quiet_moment)
{
	cr_expect(!spent_is_due(pool, now + 10 * SPENT_NS), "there is none");
	spent_add(pool, &pool->boxes[0]);
	cr_expect(!spent_is_due(pool, now + CALM_NS - 1));
	cr_expect(spent_is_due(pool, now + CALM_NS));
}

Test(spent, it_does_not_wait_for_long_where_it_is_never_quiet)
{
	spent_add(pool, &pool->boxes[0]);
	now = pool->claimed_ns = pool->spent_ns + SPENT_NS - 1;
	spent_add(pool, &pool->boxes[1]); /* it is the first that counts */
	cr_expect(!spent_is_due(pool, now));
	cr_expect(spent_is_due(pool, now + 1));
}

Test(spent, there_are_never_many)
{
	for (unsigned i = 0; i < SPENT_MAX; i++) {
		cr_expect(!spent_is_due(pool, now), "%u", i);
		spent_add(pool, &pool->boxes[i]);
		pool->claimed_ns = now;
	}
	cr_expect(spent_is_due(pool, now));
}

Test(spent, whoever_waits_for_a_box_does_not_wait_for_that)
{
	spent_add(pool, &pool->boxes[0]);
	pool->queued.n = 1;
	cr_expect(spent_is_due(pool, now));
}

Test(spent, where_no_box_waits_it_goes_at_once)
{
	pool->shapes[0].n_ready = 0;
	spent_add(pool, &pool->boxes[0]);
	cr_expect(spent_is_due(pool, now));
}

Test(spent, all_of_them_end)
{
	for (unsigned i = 0; i < BOXES; i++)
		spent_add(pool, &pool->boxes[i]);
	cr_expect(pool_is_busy(pool));
	spent_end(pool);
	cr_expect(pool->n_spent == 0 && !pool->spent && pool->n_ending == BOXES);
	for (unsigned i = 0; i < BOXES; i++)
		cr_expect(pool->boxes[i].state == WARM_ENDING);
	cr_expect(!spent_is_due(pool, now + 10 * SPENT_NS));
}
