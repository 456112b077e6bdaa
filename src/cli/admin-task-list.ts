import { LOGIN } from "../domain/account/login.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { durationText, timeOrNull, timeText } from "../domain/clock/time.ts";
import { isId } from "../domain/id.ts";
import { integerBetween, oneOf } from "../domain/rule.ts";
import { statusMessage } from "../domain/status.ts";
import { ANY_TASK } from "../domain/task/task-search.ts";
import { TAG, TASK_STATES } from "../domain/task/task.ts";
import { COMMAND_LINE_READER, explainDelivery } from "../domain/webhook/delivery-explanation.ts";
import { pauseOf } from "../domain/webhook/delivery-pause.ts";
import type { FoundTaskRow, Store, TaskQuery, TaskTimeline } from "../store/store.ts";
import { accountNamed, defineAdminCommand } from "./admin-command.ts";
import { flag, flags, TEXT, textOf, word } from "./arguments.ts";
import { hostOf, noTask } from "./delivery-filter.ts";
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
      document: { tasks: tasks.map(summaryDocument), has_more: hasMore },
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
    const document = taskDocument(found, await deliveriesOf(found, store));
    return { document: { task: document }, lines: taskLines(document) };
  },
});

async function findTasks(
  store: Store,
  { search, limit }: Pick<TaskQuery, "search" | "limit">,
): Promise<{ readonly tasks: readonly FoundTaskRow[]; readonly hasMore: boolean }> {
  const tasks: FoundTaskRow[] = [];
  let after: TaskQuery["after"] = null;
  do {
    const page = { scope: null, search, limit: limit - tasks.length, after };
    const found = await store.searchTasks(page);
    tasks.push(...found.tasks);
    after = found.next;
  } while (after !== null && tasks.length < limit);
  return { tasks, hasMore: after !== null };
}

function summaryDocument({ id, login, state, statusCode, type, tag, ...task }: FoundTaskRow) {
  const times = {
    created_at: timeText(task.createdAt),
    completed_at: timeOrNull(task.completedAt),
  };
  const deliveries = task.deliveries.map(({ kind, host, state: of }) => ({
    kind,
    host,
    state: of,
  }));
  return { id, login, state, status_code: statusCode, type, tag, ...times, deliveries };
}

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

async function deliveriesOf({ login, deliveries }: TaskTimeline, store: Store) {
  const pauses = await store.listDeliveryPauses();
  const now = systemClock.now();
  return deliveries.map((delivery) => {
    const host = hostOf(delivery.url);
    const circumstances = {
      now,
      reader: COMMAND_LINE_READER,
      pause: pauseOf(pauses, { login, host }),
    };
    const { kind, state } = delivery;
    return { kind, host, state, explanation: explainDelivery(delivery, circumstances) };
  });
}

type DeliveriesShown = Awaited<ReturnType<typeof deliveriesOf>>;

function taskDocument(found: TaskTimeline, deliveries: DeliveriesShown) {
  const { task, login, lease, isReady } = found;
  const { id, state, statusCode, type, runs, createdAt, startedAt, completedAt } = task;
  const ranMs = startedAt === null || completedAt === null ? null : completedAt - startedAt;
  return {
    id,
    login,
    state,
    status_code: statusCode,
    status_message: task.statusMessage ?? statusMessage(statusCode),
    type,
    runs,
    created_at: timeText(createdAt),
    started_at: timeOrNull(startedAt),
    completed_at: timeOrNull(completedAt),
    expires_at: timeOrNull(task.expiresAt),
    ran_ms: ranMs,
    ready: isReady,
    worker: lease?.worker ?? null,
    input_bytes: found.inputBytes,
    result_bytes: found.resultBytes,
    deliveries,
  };
}

function taskLines({ deliveries, ran_ms, ...task }: ReturnType<typeof taskDocument>) {
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
