import { hostOf } from "../admin/delivery-report.ts";
import type { Attempt, Delivery } from "../api/delivery.ts";
import { timeOrNull } from "../domain/clock/time.ts";
import { integerBetween } from "../domain/rule.ts";
import { TASK_ID } from "../domain/task/task.ts";
import type { DeliverySummary } from "../store/store.ts";
import { defineAdminCommand } from "./admin-command.ts";
import { flag } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { checkAccount, FILTER_ARGS, filterOf } from "./delivery-filter.ts";
import { tableLines, type Columns } from "./print.ts";

const NAME = "postbackd admin delivery";
const LISTED_MAX = 1000;
const LISTED = 50;
const LIMIT = integerBetween(1, LISTED_MAX);

const list = defineAdminCommand({
  description: "List the webhooks of finished tasks, those tried last first",
  example: `${NAME} list --host hooks.example.com --state given_up --since 1d`,
  notes:
    "It shows no paths and queries of URLs; 'delivery show TASK_ID' shows them, and tells what happened.",
  args: {
    ...FILTER_ARGS,
    task: flag(TASK_ID, "Task that it belongs to"),
    limit: flag(LIMIT, `How many at most, 1 to ${LISTED_MAX}; ${LISTED} unless given`),
    before: flag(
      { ...integerBetween(1, Number.MAX_SAFE_INTEGER), hint: "CURSOR" },
      "Where to go on: what the list before names at its end",
    ),
  },
  plan({ task: taskId, limit, before, ...filter }) {
    const query = { filter: { ...filterOf(filter), taskId }, limit: limit ?? LISTED, before };
    return async ({ store }) => {
      await checkAccount(store, query.filter);
      const found = await store.listAllDeliveries({ ...query, limit: query.limit + 1 });
      const deliveries = found.slice(0, query.limit);
      const next = found.length > query.limit ? (deliveries.at(-1)?.seq ?? null) : null;
      const more = next === null ? [] : ["", `There are more; --before ${next} goes on with them.`];
      return {
        document: {
          deliveries: deliveries.map(summaryDocument),
          next_cursor: next === null ? null : String(next),
        },
        lines:
          deliveries.length === 0 ? [NO_DELIVERY] : [...tableLines(deliveries, COLUMNS), ...more],
      };
    };
  },
});

export const deliveryCommand = defineCommand({
  description: "Tell what happened to webhooks, send them again, and pause them",
  example: `${NAME} show 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  subCommands: {
    list,
    show: async () => (await import("./admin-delivery-show.ts")).showCommand,
    redeliver: async () => (await import("./admin-delivery-redeliver.ts")).redeliverCommand,
    orders: async () => (await import("./admin-delivery-redeliver.ts")).ordersCommand,
    cancel: async () => (await import("./admin-delivery-redeliver.ts")).cancelCommand,
    pause: async () => (await import("./admin-delivery-pause.ts")).pauseCommand,
    resume: async () => (await import("./admin-delivery-pause.ts")).resumeCommand,
    paused: async () => (await import("./admin-delivery-pause.ts")).pausedCommand,
  },
});

const NO_DELIVERY =
  "No delivery passes the filter. There is one for each webhook of a task that has finished.";

type SummaryShown = Pick<Delivery, "delivery_id" | "kind" | "state" | "next_attempt_at"> & {
  readonly task_id: string;
  readonly login: string;
  readonly host: string;
  readonly last_attempt: Pick<
    Attempt,
    "number" | "ended_at" | "outcome" | "http_status" | "error"
  > | null;
};

function summaryDocument(summary: DeliverySummary): SummaryShown {
  const { taskId, kind, last } = summary;
  const lastAttempt = last && {
    number: last.number,
    ended_at: timeOrNull(last.endedAt),
    outcome: last.outcome,
    http_status: last.httpStatus,
    error: last.error,
  };
  return {
    delivery_id: `${taskId}-${kind}`,
    task_id: taskId,
    login: summary.login,
    kind,
    host: hostOf(summary.url),
    state: summary.state,
    next_attempt_at: timeOrNull(summary.nextDueAt),
    last_attempt: lastAttempt,
  };
}

const COLUMNS: Columns<DeliverySummary> = {
  WHEN: ({ last }) => timeOrNull(last?.endedAt ?? null),
  TASK_ID: ({ taskId }) => taskId,
  KIND: ({ kind }) => kind,
  HOST: ({ url }) => hostOf(url),
  STATE: ({ state }) => state,
  ATTEMPT: ({ last }) => last?.number ?? null,
  OUTCOME: ({ last }) => last?.outcome ?? null,
  STATUS: ({ last }) => last?.httpStatus ?? null,
  NEXT: ({ nextDueAt }) => timeOrNull(nextDueAt),
};
