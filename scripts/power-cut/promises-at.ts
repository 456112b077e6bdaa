import { bookPost, type Cancel, type Post } from "../soak/client.ts";
import { Ledger } from "../soak/ledger.ts";
import type { DiskRecord } from "./disk-record.ts";
import type { HistoryEntry } from "./history.ts";
import type { Recording } from "./recording.ts";

/** The promises of a daemon at the moment of the power cut. */
export interface PromisesAt {
  /** Whether there was an account. Without one nothing was promised. */
  readonly hasAccount: boolean;
  readonly ledger: Ledger;
  /** The requests that its clients have to repeat, and some that were answered already. */
  readonly works: readonly (Post | Cancel)[];
  readonly revokedKeys: ReadonlySet<string>;
  /** Keys that nobody had tried to revoke. */
  readonly validKeys: ReadonlySet<string>;
  /** When daemons had ended without being asked to, the power cut included; in epoch milliseconds. */
  readonly killedAt: readonly number[];
}

// So many answered posts are repeated, the newest: the latest writes are in danger.
const REPEATED_POSTS = 20;

/** Reads in a recording what a daemon had promised at that place on its time line. */
export function promisesAt(recording: Recording, record: DiskRecord, cut: number): PromisesAt {
  const { lives, file, history } = recording;
  const cutAt = record.timeOf(cut);
  const before = history.filter((entry) => isBefore(entry, { record, cut, cutAt }));
  const keys = { revokedKeys: new Set<string>(), validKeys: new Set<string>() };
  const book = { ledger: new Ledger(), posts: new Map<string, Post>(), ...keys };
  for (const entry of before) takeEntry(entry, { ...book, account: file.account, cutAt });
  const kills = lives.flatMap(({ killedAt }) => killedAt ?? []);
  return {
    ...keys,
    ledger: book.ledger,
    works: unansweredWorks([...book.posts.values()], before),
    // The account is promised when the command that makes it is over.
    hasAccount: cut > (record.lifeStarts[1] ?? Infinity),
    killedAt: [...kills.filter((at) => at < cutAt), cutAt],
  };
}

function takeEntry(
  entry: HistoryEntry,
  book: Pick<PromisesAt, "ledger"> & {
    readonly posts: Map<string, Post>;
    readonly revokedKeys: Set<string>;
    readonly validKeys: Set<string>;
    readonly account: Recording["file"]["account"];
    readonly cutAt: number;
  },
): void {
  const { ledger, posts, account, cutAt } = book;
  switch (entry.kind) {
    case "post":
      posts.set(entry.key, { ...entry, ids: null, wasCutOff: true });
      break;
    case "accepted": {
      const post = posts.get(entry.key);
      if (post === undefined) throw new Error(`${entry.key} was answered before it was sent`);
      Object.assign(post, { ids: entry.ids, wasCutOff: false });
      bookPost(post, { ledger, apiKey: account.key });
      break;
    }
    case "cancelled":
      if (entry.hasRun) ledger.owe(entry.id);
      else ledger.cancel(entry.id, { sentAt: cutAt, acknowledgedAt: cutAt });
      break;
    case "finished":
      ledger.finished.set(entry.id, entry.text);
      if (entry.isCollected) ledger.collected.add(entry.id);
      break;
    case "delivered":
      ledger.delivered.add(entry.webhookId);
      break;
    case "key-made":
      book.validKeys.add(entry.key);
      break;
    case "key-revocation":
      book.validKeys.delete(entry.key);
      break;
    case "key-revoked":
      book.revokedKeys.add(entry.key);
      break;
    case "webhook":
      ledger.receive(entry.webhook, { status: entry.status, secret: account.webhookSecret });
      break;
  }
}

function unansweredWorks(
  posts: readonly Post[],
  before: readonly HistoryEntry[],
): PromisesAt["works"] {
  const answered = before.flatMap((entry) => (entry.kind === "cancelled" ? [entry.id] : []));
  const isAnswered = new Set(answered);
  const accepted = posts.filter(({ ids }) => ids !== null);
  const cancels = accepted
    .flatMap(({ ids, tasks }) => ids?.filter((_, i) => tasks[i]?.cancelAfterMs !== null) ?? [])
    .filter((id) => !isAnswered.has(id))
    .map((id) => ({ kind: "cancel", id, dueAt: 0 }) as const);
  const unanswered = posts.filter(({ ids }) => ids === null);
  return [...unanswered, ...accepted.slice(-REPEATED_POSTS), ...cancels];
}

/** False for an entry from after the power cut. */
function isBefore(
  entry: HistoryEntry,
  {
    record,
    cut,
    cutAt,
  }: { readonly record: DiskRecord; readonly cut: number; readonly cutAt: number },
): boolean {
  if ("sentAt" in entry) return entry.sentAt <= cutAt;
  const what =
    entry.kind === "webhook"
      ? `${entry.webhook.taskId}-${entry.webhook.kind} ${entry.webhook.attempt}`
      : entry.requestId;
  const place = record.said.get(what);
  if (place === undefined) throw new Error(`strace did not see the daemon write ${what}`);
  return place < cut;
}
