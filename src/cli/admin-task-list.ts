import { findTasks, taskDocument, taskRecord } from "../admin/task.ts";
import { LOGIN } from "../domain/account/login.ts";
import { durationText, timeText } from "../domain/clock/time.ts";
import { isId } from "../domain/id.ts";
import { integerBetween, oneOf } from "../domain/rule.ts";
import { ANY_TASK } from "../domain/task/task-search.ts";
import { TAG, TASK_STATES } from "../domain/task/task.ts";
import type { FoundTaskRow } from "../store/store.ts";
import { accountNamed, defineAdminCommand } from "./admin-command.ts";
import { flag, flags, TEXT, textOf, word } from "./arguments.ts";
import { noTask } from "./delivery-filter.ts";
import { cellText, printable, tableLines, type Columns } from "./print.ts";

const NAME = "postbackd admin task";
const LISTED_MAX = 1000;
const LISTED = 50;

export const listCommand = defineAdminCommand({
  description: "List tasks, the newest first",
  example: `${NAME} list --account alice --state failed --limit 10`,
  args: {
    account: flag(LOGIN, "Only tasks of this account"),
    state: flags(oneOf(TASK_STATES), "Where it stands; may be repeated"),
    type: flag(textOf("NAME"), "Only tasks of this type"),
    tag: flag(TAG, "Only tasks with this tag"),
    limit: flag(integerBetween(1, LISTED_MAX), `How many at most; ${LISTED} unless given`),
  },
  async run({ account: login, state: states, type, tag, limit }, { store }) {
    if (login !== null) await accountNamed(login, store);
    const search = { ...ANY_TASK, login, states, type, tag };
    const { tasks, hasMore } = await findTasks(store, { search, limit: limit ?? LISTED });
    const more = hasMore ? ["", "There may be more: --limit takes up to 1000."] : [];
    return {
      document: { tasks: tasks.map(taskRecord), has_more: hasMore },
      lines: tasks.length === 0 ? ["No task passes."] : [...tableLines(tasks, COLUMNS), ...more],
    };
  },
});

export const showCommand = defineAdminCommand({
  description: "Tell where a task stands, and what became of its webhooks",
  example: `${NAME} show 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes:
    "It shows no input, no result, and no path of a URL; 'admin delivery show' tells all of its webhooks.",
  args: { task_id: word(TEXT, "Id of the task") },
  async run({ task_id: id }, { store }) {
    const found = isId(id) ? await store.findTimeline({ scope: null, id }) : null;
    if (found === null) throw noTask();
    const document = await taskDocument(found, store);
    return { document: { task: document }, lines: taskLines(document) };
  },
});

const COLUMNS: Columns<FoundTaskRow> = {
  CREATED: ({ createdAt }) => timeText(createdAt),
  TASK_ID: ({ id }) => id,
  ACCOUNT: ({ login }) => login,
  TYPE: ({ type }) => type,
  TAG: ({ tag }) => tag,
  STATE: ({ state }) => state,
  CODE: ({ statusCode }) => statusCode,
  WEBHOOKS: ({ deliveries }) => deliveries.map(({ kind, state }) => `${kind} ${state}`).join(", "),
};

function taskLines({ deliveries, ran_ms, ...task }: Awaited<ReturnType<typeof taskDocument>>) {
  const facts = Object.entries(task).map(
    ([name, value]) =>
      `${name.padEnd(16)}${cellText(typeof value === "boolean" ? `${value}` : value)}`,
  );
  const ran = ran_ms === null ? [] : [`${"ran for".padEnd(16)}${durationText(ran_ms)}`];
  const explanations = deliveries.map(
    ({ kind, explanation }) => `${kind.padEnd(16)}${explanation}`,
  );
  return [...facts, ...ran, ...explanations].map(printable);
}
