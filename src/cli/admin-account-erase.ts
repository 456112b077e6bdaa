import { defineAdminCommand, LOGIN_ARG, accountNamed } from "./admin-command.ts";
import { bySteps, giveRoomBack, tasksText } from "./admin-steps.ts";
import { toggle } from "./arguments.ts";
import { CommandFailure } from "./failure.ts";
import { canAsk, confirm } from "./terminal.ts";
import { byCommand } from "./user.ts";

const NAME = "postbackd admin account";

export const eraseCommand = defineAdminCommand({
  description: "Erase a disabled account and everything that belongs to it, for good",
  example: `${NAME} erase alice --yes`,
  notes:
    "Its tasks with inputs, results and webhooks, its keys, sessions and statistics, and the request that it\n" +
    "was approved by. The numbers of all accounts together keep what it did. Safe to repeat when it was\n" +
    "interrupted. Copies of the database are not touched. On a server it waits for what any daemon is writing when\n" +
    "it begins, which takes 10 seconds at most where one of them stands still.",
  args: {
    ...LOGIN_ARG,
    yes: toggle("Erase it without asking; needed where no terminal can be asked"),
  },
  async run({ login, yes }, { store, config }) {
    const account = await accountNamed(login, store);
    if (account.disabledAt === null) throw isEnabled(login);
    const { queued, delayed, running, ...ended } = await store.countWork(account.accountId);
    const { completed, failed, cancelled, bytes } = ended;
    const total = queued + delayed + running + completed + failed + cancelled;
    const loss = `this erases the account ${login} with ${tasksText(total)} for good`;
    if (!yes && !canAsk()) throw new CommandFailure(`${loss}; say --yes to do it`);
    await confirm({ yes }, () => `${loss}: ${bytes.toLocaleString("en")} bytes.`);
    let erased = 0;
    await bySteps(
      async () => {
        const part = await store.eraseAccountPart({
          login,
          audit: byCommand("account.erased", login),
        });
        if (part.kind === "enabled") throw isEnabled(login);
        if (part.kind === "more") erased += part.tasks;
        return part.kind === "more";
      },
      () => ({ part: "tasks erased", done: erased, of: total }),
    );
    const { document, lines } = await giveRoomBack(store, config);
    return {
      document: { login, erased: true, tasks: erased, ...document },
      lines: [`Account ${login} is erased, with ${tasksText(erased)}.`, ...lines],
    };
  },
});

function isEnabled(login: string): CommandFailure {
  return new CommandFailure(
    `the account ${login} is enabled; disable it first: '${NAME} disable ${login}'`,
  );
}
