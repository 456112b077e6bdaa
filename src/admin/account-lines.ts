import { concernsAccount } from "../domain/audit/audit-entry.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import { isId } from "../domain/id.ts";
import type { TellProgress } from "../domain/log.ts";
import { taskJson } from "../domain/task/envelope.ts";
import { ANY_TASK } from "../domain/task/task-search.ts";
import { traceHeaders } from "../domain/task/trace.ts";
import { ORDERS_LISTED_MAX, deliveryDocument } from "../domain/webhook/delivery.ts";
import type {
  AccountState,
  AuditAction,
  AuditEntry,
  ListedAuditEntry,
  Store,
  TaskDeliveries,
  TaskPlace,
} from "../store/store.ts";
import { accountDocument, keyDocument, limitsDocument, requestRecord } from "./account.ts";
import { entryDocument } from "./context.ts";
import { orderRecord, pauseDocument } from "./delivery.ts";

type Kind = "account" | "key" | "access_request" | "pause" | "order" | "task" | "audit";

/** Counts the lines so far, without the last line. */
export class LineCounts {
  readonly byKind: Partial<Record<Kind, number>> = {};
  /** The kinds of which there may be more than the lines contain. */
  readonly truncated: Kind[] = [];

  add(kind: Kind): void {
    this.byKind[kind] = (this.byKind[kind] ?? 0) + 1;
  }
}

interface LineParts {
  readonly store: Store;
  readonly counts: LineCounts;
  readonly tell: TellProgress;
}

const PAGE_TASKS = 500;
const PAGE_ENTRIES = 1000;

/**
 * Yields the JSON of each line. Reads a page of tasks and one whole task at a time, each in a transaction of its own.
 * The newest tasks come first, so a task that exists from the start to the end comes once.
 */
export async function* accountLines(
  account: AccountState,
  { store, counts, tell }: LineParts,
): AsyncGenerator<string> {
  const line = (kind: Kind, document: object): string => {
    counts.add(kind);
    return JSON.stringify({ kind, ...document });
  };
  const { login, accountId } = account;
  const listed = await store.listRedeliveryOrders({ login: null, limit: ORDERS_LISTED_MAX });
  if (listed.length === ORDERS_LISTED_MAX) counts.truncated.push("order");
  const orders = listed.filter(({ filter }) => filter.login === login);
  const keys = (await store.listKeys(login)) ?? [];
  const pauses = (await store.listDeliveryPauses()).filter((pause) => pause.login === login);

  yield line("account", {
    ...accountDocument(account),
    own_limits: limitsDocument(account.ownLimits),
    is_rotating_secret: account.isRotating,
  });
  for (const key of keys) yield line("key", keyDocument(key));
  const request = await store.findApprovedRequest(accountId);
  if (request !== null) yield line("access_request", requestRecord(request));
  for (const pause of pauses) yield line("pause", pauseDocument(pause));
  for (const order of orders) yield line("order", orderRecord(order));
  const total = await countTasks(accountId, store);
  let done = 0;
  for await (const found of tasksOf(accountId, store)) {
    counts.add("task");
    yield taskLine(found);
    tell({ part: "tasks", done: ++done, of: total });
  }
  const ids = new Set([...keys.map(({ keyId }) => keyId), ...orders.map(({ id }) => id)]);
  for await (const entry of entriesOf(account, { store, ids })) {
    yield line("audit", entryDocument(entry));
  }
  const { byKind: lines, truncated } = counts;
  const ended_at = timeText(systemClock.now());
  yield JSON.stringify({ kind: "end", ended_at, lines, truncated });
}

async function countTasks(accountId: number, store: Store): Promise<number> {
  const { queued, delayed, running, ...ended } = await store.countWork(accountId);
  return queued + delayed + running + ended.completed + ended.failed + ended.cancelled;
}

async function* tasksOf(accountId: number, store: Store): AsyncGenerator<TaskDeliveries> {
  let after: TaskPlace | null = null;
  do {
    const query = { scope: accountId, search: ANY_TASK, limit: PAGE_TASKS, after };
    const page = await store.listTasks(query);
    for (const { id } of page.tasks) {
      const found = await store.findTaskDeliveries(id);
      // It may have been erased since the page was read.
      if (found !== null) yield found;
    }
    after = page.next;
  } while (after !== null);
}

/** As `task_get` and `deliveries` show it: input and result are the stored text, of which nothing may change. */
function taskLine({ task, traceText, deliveries }: TaskDeliveries): string {
  const shown = deliveries.map((each) => deliveryDocument(task.id, each));
  const trace = `"trace":${JSON.stringify(traceHeaders(traceText))}`;
  const fields = `${taskJson(task).slice(1, -1)},${trace},"deliveries":${JSON.stringify(shown)}`;
  return `{"kind":"task",${fields}}`;
}

interface About {
  readonly store: Store;
  /** Of the account's keys and orders. */
  readonly ids: ReadonlySet<string>;
}

/**
 * The entries about an account and its items, and about its own actions; newest first. None belongs to an earlier
 * account with the same login: entries are in the order in which they were made, independent of the clock.
 */
async function* entriesOf(
  account: AccountState,
  { store, ids }: About,
): AsyncGenerator<ListedAuditEntry> {
  let before: number | null = null;
  for (;;) {
    const query = { since: null, action: null, limit: PAGE_ENTRIES, before };
    const page: readonly ListedAuditEntry[] = await store.listAudit(query);
    for (const entry of page) {
      const isOfLogin = entry.subject === account.login;
      if (isOfLogin && entry.action === "account.erased") return;
      if (await concerns(entry, account, { store, ids })) yield entry;
      if (isOfLogin && MAKES_ACCOUNT.has(entry.action)) return;
    }
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ENTRIES) return;
    before = last.seq;
  }
}

const MAKES_ACCOUNT: ReadonlySet<AuditAction> = new Set(["account.created", "access.approved"]);

async function concerns(
  entry: AuditEntry,
  { login, accountId }: AccountState,
  { store, ids }: About,
): Promise<boolean> {
  if (concernsAccount(entry, { login, ids })) return true;
  const { action, subject } = entry;
  if (subject === null || action.startsWith("worker.")) return false;
  // The rest have ids of tasks, of whichever account.
  return isId(subject) && (await store.findTask({ accountId, id: subject })) !== null;
}
