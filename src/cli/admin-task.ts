import { LOGIN } from "../domain/account/login.ts";
import { isId } from "../domain/id.ts";
import { ANY_TASK } from "../domain/task/task-search.ts";
import { OPEN_STATES, TAG } from "../domain/task/task.ts";
import { cancelStep, type OpenTaskPlace } from "../store/store.ts";
import { accountNamed, defineAdminCommand, type AdminStep } from "./admin-command.ts";
import { bySteps, endNow, giveRoomBack, tasksText } from "./admin-steps.ts";
import { flag, optionalWord, TEXT, textOf, toggle, word, type Given } from "./arguments.ts";
import { byCommand } from "./command-user.ts";
import type { Command } from "./command.ts";
import { noTask, taskNamed } from "./delivery-filter.ts";
import { CommandFailure, UsageError } from "./failure.ts";

const NAME = "postbackd admin task";

const BULK_ARGS = {
  account: flag(LOGIN, "Account whose tasks are meant"),
  type: flag(textOf("NAME"), "Only tasks of this type"),
  tag: flag(TAG, "Only tasks with this tag"),
  running: toggle("Those that run, too; else only those that wait"),
  "dry-run": toggle("Say how many there are, and cancel none"),
};

const cancel = defineAdminCommand({
  description: "Cancel a task, or all tasks of an account that wait and pass a filter",
  example: `${NAME} cancel --account alice --type thumbnail --dry-run`,
  notes:
    "A cancelled task never runs and sends nothing. A worker that runs one is told at its next heartbeat;\n" +
    "tasks that the daemon itself runs stop within a second.",
  args: { task_id: optionalWord(TEXT, "Id of a task; else give --account"), ...BULK_ARGS },
  plan({ task_id: id, ...bulk }) {
    if (id === null) return cancelMany(bulk);
    const other = Object.entries(bulk).find(([, value]) => value !== null && value !== false);
    if (other === undefined) return cancelOne(id);
    throw new UsageError(
      `give the id of a task or --account, not both: --${other[0]} is about many`,
    );
  },
});

const erase = defineAdminCommand({
  description: "Erase a task with its input, result and webhooks, for good",
  example: `${NAME} erase 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes:
    "Cancel a running task first. A webhook that is still to be sent is lost only with --with-webhooks; one that\n" +
    "is under way may still arrive.",
  args: {
    task_id: word(TEXT, "Id of the task"),
    "with-webhooks": toggle("Erase it even while a webhook of it is still to be sent"),
  },
  async run({ task_id: id, "with-webhooks": hasWebhooks }, { store, config }) {
    const outcome = isId(id)
      ? await store.eraseTask({ id, hasWebhooks, audit: byCommand("task.erased", id) })
      : "unknown";
    if (outcome === "unknown") throw noTask();
    if (outcome === "running") {
      throw new CommandFailure(`the task runs; cancel it first: '${NAME} cancel ${id}'`);
    }
    if (outcome === "to be sent") {
      throw new CommandFailure(
        "a webhook of the task is still to be sent; --with-webhooks erases it nevertheless",
      );
    }
    const { document, lines } = await giveRoomBack(store, config);
    return {
      document: { task_id: id, erased: true, ...document },
      lines: [`Task ${id} is erased.`, ...lines],
    };
  },
});

export const taskCommand: Command = {
  description: "List, show, cancel and erase tasks, and send their webhooks again",
  example: `${NAME} cancel 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  subCommands: {
    list: async () => (await import("./admin-task-list.ts")).listCommand,
    show: async () => (await import("./admin-task-list.ts")).showCommand,
    cancel,
    // The daemon works orders off, whichever process gave them.
    redeliver: async () => {
      const { redeliverCommand } = await import("./admin-delivery-redeliver.ts");
      return {
        ...redeliverCommand,
        example: `${NAME} redeliver 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
      };
    },
    erase,
  },
};

function cancelMany(given: Given<typeof BULK_ARGS>): AdminStep {
  const { account: login, type, tag, running: hasRunning, "dry-run": isDry } = given;
  if (login === null) {
    throw new UsageError(
      "give the id of a task, or --account LOGIN for all of an account that wait",
    );
  }
  return async ({ store, config }) => {
    const { accountId } = await accountNamed(login, store);
    const states = OPEN_STATES.filter((state) => hasRunning || state !== "running");
    const filter = { accountId, states, search: { ...ANY_TASK, type, tag } };
    const total = { queued: 0, running: 0 };
    let after: OpenTaskPlace | null = null;
    await bySteps(
      async () => {
        const end = isDry ? null : await endNow(store, config);
        const page = await cancelStep(store, { filter, after, end });
        total.queued += page.queued;
        total.running += page.running;
        after = page.next;
        return after !== null;
      },
      () => ({ part: "tasks cancelled", done: total.queued + total.running, of: null }),
    );
    const running = hasRunning ? `, and ${tasksText(total.running)} that ran` : "";
    const what = `${tasksText(total.queued)} in the queue${running}`;
    return {
      document: { login, dry_run: isDry, ...total },
      lines: [isDry ? `Would be cancelled: ${what}. Nothing was done.` : `Cancelled: ${what}.`],
    };
  };
}

function cancelOne(id: string): AdminStep {
  return async ({ store, config }) => {
    const { login } = await taskNamed(id, store);
    const { accountId } = await accountNamed(login, store);
    const outcome = await store.cancelTask({ accountId, id, ...(await endNow(store, config)) });
    if (outcome === "unknown") throw noTask();
    if (outcome === "finished") {
      throw new CommandFailure("the task has ended already; 'admin task erase' erases it");
    }
    const isNew = outcome === "cancelled";
    return {
      document: { task_id: id, login, cancelled: isNew },
      lines: [isNew ? `Task ${id} is cancelled.` : `Task ${id} was cancelled before.`],
    };
  };
}
