import { findTasks, taskDocument, taskRecord, endNow, walkOpen } from "../admin/task.ts";
import { LOGIN } from "../domain/account/account.ts";
import { durationText } from "../domain/clock/duration.ts";
import { isId } from "../domain/id.ts";
import { oneOf } from "../domain/rule.ts";
import { ANY_TASK } from "../domain/task/task-search.ts";
import { OPEN_STATES, TAG, TASK_STATES } from "../domain/task/task.ts";
import { type Store, type TaskTimeline } from "../store/store.ts";
import {
  type AdminStep,
  LIMIT_ARG,
  LISTED,
  accountNamed,
  bySteps,
  defineAdminCommand,
  giveRoomBack,
  noTask,
  taskNamed,
} from "./admin-command.ts";
import { type Given, TEXT, flag, flags, optionalWord, textOf, toggle, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { UsageError, fail } from "./failure.ts";
import { answer, countText, factLines, listAnswer } from "./print.ts";
import { YES_ARG, confirm } from "./terminal.ts";
import { byCommand } from "./user.ts";

const NAME = "postbackd admin task";

const list = defineAdminCommand({
  description: "List tasks, the newest first",
  example: `${NAME} list --account alice --state failed --limit 10`,
  args: {
    account: flag(LOGIN, "Only tasks of this account"),
    state: flags(oneOf(TASK_STATES), "State of the task; may be repeated"),
    type: flag(textOf("NAME"), "Only tasks of this type"),
    tag: flag(TAG, "Only tasks with this tag"),
    ...LIMIT_ARG,
  },
  async run({ account: login, state: states, type, tag, limit }, { store }) {
    if (login !== null) await accountNamed(login, store);
    const search = { ...ANY_TASK, login, states, type, tag };
    const { tasks, hasMore } = await findTasks(store, { search, limit: limit ?? LISTED });
    const records = tasks.map(taskRecord);
    const rows = records.map(({ deliveries, ...task }) => {
      const webhooks = deliveries.map((each) => `${each.kind} ${each.state}`).join(", ");
      return { ...task, webhooks };
    });
    const end = hasMore ? ["", "There may be more: --limit takes up to 1000."] : [];
    const document = { tasks: records, has_more: hasMore };
    return listAnswer(document, rows, { none: "No task matches.", end });
  },
});

const show = defineAdminCommand({
  description: "Show the state of a task and of its webhooks",
  example: `${NAME} show 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes:
    "It shows no input, no result, and no path of a URL; 'admin delivery show' shows all of its webhooks.",
  args: { task_id: word(TEXT, "Id of the task") },
  async run({ task_id: id }, { store }) {
    const task = await taskDocument(await timelineOf(id, store), store);
    const { deliveries, explanation: none, ran_ms: ranMs, ...facts } = task;
    const explained =
      none === null
        ? deliveries.map(({ kind, explanation }) => [kind, explanation] as const)
        : [["webhooks", none] as const];
    const ran = ranMs === null ? {} : { "ran for": durationText(ranMs) };
    const lines = factLines({ ...facts, ...ran, ...Object.fromEntries(explained) });
    return answer({ task }, ...lines);
  },
});

const BULK_ARGS = {
  account: flag(LOGIN, "Account of the tasks"),
  type: flag(textOf("NAME"), "Only tasks of this type"),
  tag: flag(TAG, "Only tasks with this tag"),
  running: toggle("Cancel running tasks too"),
  "dry-run": toggle("Only count the tasks"),
};

const cancel = defineAdminCommand({
  description: "Cancel a task, or the waiting tasks of an account that match a filter",
  example: `${NAME} cancel --account alice --type thumbnail --dry-run`,
  notes:
    "A cancelled task never runs and sends nothing. The worker of a running task is notified at its next heartbeat;\n" +
    "tasks that the daemon itself runs stop within a second.",
  args: {
    task_id: optionalWord(TEXT, "Id of a task; else give --account"),
    ...BULK_ARGS,
    ...YES_ARG,
  },
  plan({ task_id: id, yes, ...bulk }) {
    if (id === null) return cancelMany(bulk, { yes });
    const other = Object.entries(bulk).find(([, value]) => value !== null && value !== false);
    if (other === undefined) return cancelOne(id);
    throw new UsageError(
      `--${other[0]} cannot be combined with the id of a task: give the id or --account`,
    );
  },
});

const erase = defineAdminCommand({
  description: "Erase a task permanently, with its input, result and webhooks",
  example: `${NAME} erase 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes:
    "Cancel a running task first. A webhook that is still to be sent is lost only with --with-webhooks; one that\n" +
    "is under way may still arrive.",
  args: {
    task_id: word(TEXT, "Id of the task"),
    "with-webhooks": toggle("Erase the task even if a webhook is still to be sent"),
    ...YES_ARG,
  },
  async run({ task_id: id, "with-webhooks": hasWebhooks, yes }, { store, config }) {
    await confirm({ yes }, () => erasedText(id, store));
    const found = await timelineOf(id, store);
    const audit = byCommand("task.erased", id, { account: found.login });
    const outcome = await store.eraseTask({ id, hasWebhooks, audit });
    if (outcome === "unknown") noTask();
    if (outcome === "running") fail(`the task runs; cancel it first: '${NAME} cancel ${id}'`);
    if (outcome === "to be sent") {
      fail("a webhook of the task is still to be sent; --with-webhooks erases it nevertheless");
    }
    const { document, lines } = await giveRoomBack(store, config);
    return answer({ task_id: id, erased: true, ...document }, `Task ${id} is erased.`, ...lines);
  },
});

export const taskCommand = defineCommand({
  description: "List, show, cancel and erase tasks, and send their webhooks again",
  example: `${NAME} cancel 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  subCommands: {
    list,
    show,
    cancel,
    // The daemon works orders off, whichever process gave them.
    redeliver: async () => {
      const { redeliverCommand } = await import("./admin-redelivery.ts");
      const example = `${NAME} redeliver 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`;
      return { ...redeliverCommand, meta: { ...redeliverCommand.meta, example } };
    },
    erase,
  },
});

async function erasedText(id: string, store: Store): Promise<string> {
  const { task, login, inputBytes, resultBytes, deliveries } = await timelineOf(id, store);
  const bytes = ((inputBytes ?? 0) + (resultBytes ?? 0)).toLocaleString("en");
  const webhooks = deliveries.map(({ kind, state }) => `${kind} ${state}`);
  const what = [`${bytes} bytes of input and result`, ...webhooks].join(", ");
  return `this permanently erases the ${task.state} task ${id} of ${login}: ${what}.`;
}

async function timelineOf(id: string, store: Store): Promise<TaskTimeline> {
  return (isId(id) ? await store.findTimeline({ scope: null, id }) : null) ?? noTask();
}

function cancelMany(given: Given<typeof BULK_ARGS>, { yes }: Given<typeof YES_ARG>): AdminStep {
  const { account: login, type, tag, running: hasRunning, "dry-run": isDry } = given;
  if (login === null) {
    throw new UsageError(
      "give the id of a task, or --account LOGIN for all waiting tasks of an account",
    );
  }
  return async ({ store, config }) => {
    const { accountId } = await accountNamed(login, store);
    const states = OPEN_STATES.filter((state) => hasRunning || state !== "running");
    const filter = { accountId, states, search: { ...ANY_TASK, type, tag } };
    const openText = ({ queued, running }: { queued: number; running: number }): string =>
      `${countText(queued, "task")} in the queue${hasRunning ? `, and ${countText(running, "task")} that ran` : ""}`;
    const count = async () =>
      (await walkOpen({ store, filter, bySteps, end: async () => null })).total;
    if (isDry) {
      const total = await count();
      const line = `Would be cancelled: ${openText(total)}. Nothing was done.`;
      return answer({ login, dry_run: true, ...total }, line);
    }
    await confirm({ yes }, async () => `this permanently cancels ${openText(await count())}.`);
    const end = () => endNow(store, config);
    const { total } = await walkOpen({ store, filter, bySteps, end });
    return answer({ login, dry_run: false, ...total }, `Cancelled: ${openText(total)}.`);
  };
}

function cancelOne(id: string): AdminStep {
  return async ({ store, config }) => {
    const { login } = await taskNamed(id, store);
    const { accountId } = await accountNamed(login, store);
    const outcome = await store.cancelTask({ accountId, id, ...(await endNow(store, config)) });
    if (outcome === "unknown") noTask();
    if (outcome === "finished") fail("the task has ended already; 'admin task erase' erases it");
    const isNew = outcome === "cancelled";
    const line = isNew ? `Task ${id} is cancelled.` : `Task ${id} was cancelled before.`;
    return answer({ task_id: id, login, cancelled: isNew }, line);
  };
}
