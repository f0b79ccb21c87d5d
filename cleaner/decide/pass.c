#include "cleaner/decide/pass.h"

void pass_want(struct pass *p)
{
    p->goes_on = true;
    p->until = p->block;
    p->turned = false;
}

void pass_skip(struct pass *p)
{
    p->block += PASS_PIECE_BLOCKS;
}

/* A table that has been cut off before `until` ends the pass at its end. */
void pass_read(struct pass *p, int64_t blocks)
{
    int64_t next = p->block + PASS_PIECE_BLOCKS;
    bool at_end = next >= blocks;
    bool over = at_end && p->turned;
    p->block = at_end ? 0 : next;
    p->turned = p->turned || at_end;
    p->goes_on = !over && (!p->turned || p->block < p->until);
}
