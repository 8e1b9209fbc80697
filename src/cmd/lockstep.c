/* lockstep.c - the table of subcommands. */
int main(void)
{
    return 0;
}
