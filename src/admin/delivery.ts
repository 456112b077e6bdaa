import type { DeliveryPause as PauseShown } from "../api/delivery.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import {
  COMMAND_LINE_READER,
  type DeliveryCircumstances,
  type TaskAccount,
  explainAttempt,
  explainDelivery,
} from "../domain/webhook/delivery-explanation.ts";
import { pauseOf, scopeText } from "../domain/webhook/delivery-pause.ts";
import {
  type DeliveryFilter,
  attemptDocument,
  hastensScheduled,
} from "../domain/webhook/delivery.ts";
import { messageHash } from "../domain/webhook/signature.ts";
import { parseUrlForm } from "../domain/webhook/url-form.ts";
import { sentRequest, signedMessage, webhookId } from "../domain/webhook/webhook-request.ts";
import { type UrlStep, postedUrls, urlSteps } from "../domain/webhook/webhook-url.ts";
import type {
  Attempt,
  Delivery,
  DeliveryCount,
  DeliveryPause,
  DeliverySummary,
  PauseScope,
  RedeliveryOrder,
  Store,
  TaskDeliveries,
} from "../store/store.ts";
import type { AdminContext, KeyContext } from "./context.ts";

export function reportDelivery(
  delivery: Delivery,
  found: TaskDeliveries,
  { now, pauses }: { readonly now: number; readonly pauses: readonly DeliveryPause[] },
) {
  const { kind, url } = delivery;
  const circumstances = circumstancesOf(delivery, { now, pauses, account: found });
  return {
    delivery,
    explanation: explainDelivery(delivery, circumstances),
    steps: stepsOf(delivery, found),
    /** The message that every attempt's X-Signature signs. */
    message: signedMessage({ kind, url, task: found.task }),
    attempts: delivery.attempts.map((attempt) => ({
      attempt,
      explanation: explainAttempt(attempt, { ...circumstances, url }),
      /** Null when nothing was sent. */
      request: sentRequest(attempt, { ...found, kind, url }),
    })),
  };
}

interface Present {
  readonly now: number;
  readonly pauses: readonly DeliveryPause[];
  readonly account: TaskAccount;
}

/** The sentence about a delivery, as the operator reads it on the command line. */
export function explained(delivery: Delivery, present: Present): string {
  return explainDelivery(delivery, circumstancesOf(delivery, present));
}

function circumstancesOf(
  { url }: Delivery,
  { now, pauses, account }: Present,
): DeliveryCircumstances {
  const pause = pauseOf(pauses, { login: account.login, host: hostOf(url) });
  return { now, reader: COMMAND_LINE_READER, account, pause };
}

export type DeliveryReport = ReturnType<typeof reportDelivery>;
export type AttemptReport = DeliveryReport["attempts"][number];

function stepsOf({ kind, url }: Delivery, { task }: TaskDeliveries): readonly UrlStep[] {
  const { postback, pingback, tag } = postedUrls(task);
  const posted = kind === "postback" ? postback : pingback;
  const values = kind === "pingback" ? { id: task.id, tag } : null;
  const [first, ...rest] = posted === null ? [] : urlSteps(posted, values);
  // The client's own text is not kept: a task holds its URLs in encoded form.
  const steps =
    first === undefined ? [] : [{ ...first, step: "as posted, in encoded form" }, ...rest];
  // Attempts request the stored URL, also if the present rules would make another of the posted URL.
  return steps.at(-1)?.url === url ? steps : [...steps, { step: "as stored", url }];
}

export function reportDocument(report: DeliveryReport, taskId: string) {
  const { delivery, message } = report;
  const { kind, url, state } = delivery;
  return {
    delivery_id: webhookId(taskId, kind),
    kind,
    url,
    state,
    explanation: report.explanation,
    url_steps: report.steps,
    attempts: report.attempts.map(attemptRecord),
    signed: { message, bytes: Buffer.byteLength(message), sha256: messageHash(message) },
  };
}

function attemptRecord({ attempt, explanation, request }: AttemptReport) {
  const { retryAfter } = attempt;
  return {
    explanation,
    ...attemptDocument(attempt),
    late_ms: lateMs(attempt),
    retry_after: retryAfter,
    method: request?.method ?? null,
    headers: request?.headers ?? null,
  };
}

/** The delay of an attempt behind its due time; null if it has not started. */
export function lateMs({ startedAt, dueAt }: Attempt): number | null {
  return startedAt === null ? null : Math.max(0, startedAt - dueAt);
}

/** The host of a webhook's URL: path and query can be secrets. */
export function hostOf(url: string): string {
  const form = parseUrlForm(url);
  return form.kind === "form" ? form.hostname : "-";
}

/** A delivery in a list, without the path and query of its URL. */
export function deliveryRecord(summary: DeliverySummary) {
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

/** The deliveries that a pause covers; null is all accounts, or all hosts. */
export interface PausedDeliveries {
  readonly scope: PauseScope;
  readonly login: string | null;
}

/** Pauses deliveries. Returns how many wait, and what the store did. */
export async function pauseDeliveries(
  { scope, login }: PausedDeliveries,
  by: Pick<DeliveryPause, "pausedBy" | "reason">,
  { store, now, audit }: AdminContext<"pauseDeliveries" | "countScheduled">,
) {
  const details = { host: scope.host, reason: by.reason };
  const entry = audit("delivery.paused", login, details);
  const outcome = await store.pauseDeliveries({ ...scope, ...by, since: now, audit: entry });
  return { outcome, waiting: await store.countScheduled(scope) };
}

/** Ends the pause of exactly these deliveries. Returns how many waited and all other pauses; null if it does not exist. */
export async function resumeDeliveries(
  { scope, login }: PausedDeliveries,
  { store, audit }: AdminContext<"resumeDeliveries" | "listDeliveryPauses" | "countScheduled">,
) {
  // Counted before the resume: afterwards a running daemon sends them while they are counted.
  const waiting = await store.countScheduled(scope);
  const entry = audit("delivery.resumed", login, { host: scope.host });
  if (!(await store.resumeDeliveries({ ...scope, audit: entry }))) return null;
  return { left: await store.listDeliveryPauses(), waiting };
}

/** Lists all pauses with the webhooks that wait, counted for the first `countedMax` of them. */
export async function listPauses(
  { store }: Pick<AdminContext<"listDeliveryPauses" | "countScheduled">, "store">,
  countedMax: number,
): Promise<readonly PauseShown[]> {
  const shown: PauseShown[] = [];
  // One after the other: a count may take its time, and the reads of others come in between.
  for (const [i, pause] of (await store.listDeliveryPauses()).entries()) {
    const waiting = i < countedMax ? await store.countScheduled(pause) : null;
    shown.push({ ...pauseDocument(pause), waiting });
  }
  return shown;
}

export function pauseDocument({ login, host, since, reason, pausedBy }: DeliveryPause) {
  return { login, host, since: timeText(since), reason, paused_by: pausedBy };
}

/** The deliveries of a named task that an order sends: those that have ended, and scheduled ones. */
export function withScheduled(
  ended: DeliveryCount,
  { deliveries: all }: TaskDeliveries,
  filter: DeliveryFilter,
): DeliveryCount {
  if (!hastensScheduled(filter)) return ended;
  const scheduled = all.filter(
    ({ state, kind }) => state === "scheduled" && (filter.kind ?? kind) === kind,
  );
  const hosts = new Map(ended.hosts.map(({ host, deliveries }) => [host, deliveries]));
  for (const { url } of scheduled) hosts.set(hostOf(url), (hosts.get(hostOf(url)) ?? 0) + 1);
  return {
    deliveries: ended.deliveries + scheduled.length,
    hosts: [...hosts].map(([host, deliveries]) => ({ host, deliveries })),
  };
}

/** Places an order without a limit of open ones, as the operator may. */
export async function placeOrder(
  asked: Pick<RedeliveryOrder, "filter" | "perSecond">,
  deliveries: number,
  { store, ids, now, audit }: KeyContext<"orderRedelivery">,
): Promise<RedeliveryOrder> {
  const id = ids.next(now);
  const filter = filterText(asked.filter);
  const entry = audit("order.placed", id, { account: asked.filter.login, filter, deliveries });
  const request = { ...asked, id, createdAt: now, openMax: null, audit: entry };
  const order = await store.orderRedelivery(request);
  if (order === "busy") throw new Error("an order without a limit was refused");
  return order;
}

export function stateOf({ endedAt, isCancelled }: RedeliveryOrder): "open" | "cancelled" | "done" {
  if (isCancelled) return "cancelled";
  return endedAt === null ? "open" : "done";
}

export function orderRecord(order: RedeliveryOrder) {
  const { filter } = order;
  return {
    order_id: order.id,
    state: stateOf(order),
    created_at: timeText(order.createdAt),
    ended_at: timeOrNull(order.endedAt),
    per_second: order.perSecond,
    redelivered: order.redelivered,
    filter: {
      task_id: filter.taskId,
      kind: filter.kind,
      host: filter.host,
      states: filter.states,
      outcome: filter.outcome,
      since: timeOrNull(filter.since),
      until: timeOrNull(filter.until),
      login: filter.login,
    },
  };
}

/** A filter as the flags that would make it; empty for a filter that selects everything. */
export function filterText(filter: DeliveryFilter): string {
  const { login, taskId, kind, host, states, outcome, since, until } = filter;
  const flags: readonly (readonly [flag: string, value: string | null])[] = [
    ["task", taskId],
    ["kind", kind],
    ["host", host],
    ...(states ?? []).map((state) => ["state", state] as const),
    ["outcome", outcome],
    ["since", since === null ? null : timeText(since)],
    ["until", until === null ? null : timeText(until)],
    ["account", login],
  ];
  return flags.flatMap(([flag, value]) => (value === null ? [] : `--${flag} ${value}`)).join(" ");
}

/** Returns the reasons that hold up an order: its account is disabled, or pauses cover its deliveries. */
export async function orderObstacles(
  { filter }: RedeliveryOrder,
  {
    hosts,
    found,
  }: { readonly hosts: DeliveryCount["hosts"]; readonly found: TaskDeliveries | null },
  store: Pick<Store, "findAccount" | "listDeliveryPauses">,
): Promise<readonly string[]> {
  const login = filter.login ?? found?.login ?? null;
  const account = login === null ? null : await store.findAccount(login);
  const isDisabled = account !== null && account.disabledAt !== null;
  const remedy = `'postbackd admin account enable ${login}'`;
  // Only an order that names the account rests; an order for a task makes deliveries due, and these wait.
  const waits = filter.login === null ? "these deliveries wait" : "the order rests";
  const pauses = (await store.listDeliveryPauses()).filter((pause) => {
    // Without an account some of the deliveries may be of the account of a pause.
    const of = login ?? pause.login ?? "";
    return hosts.some(({ host }) => pauseOf([pause], { login: of, host }) !== null);
  });
  return [
    ...(isDisabled ? [`${login} is disabled: ${waits} until ${remedy}`] : []),
    ...pauses.map((pause) => `paused: ${scopeText(pause)}; these deliveries wait for the resume`),
  ];
}
