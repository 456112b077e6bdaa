import type { CarefulPost, CarefulWork } from "../soak/careful-client.ts";
import { Ledger } from "../soak/ledger.ts";
import type { HistoryEntry } from "./client-history.ts";
import type { DiskRecord } from "./disk-record.ts";
import type { Recording } from "./recording.ts";

/** The promises of a daemon at the moment of the power cut. */
export interface PromisesAt {
  /** Whether there was an account. Without one nothing was promised. */
  readonly hasAccount: boolean;
  readonly ledger: Ledger;
  /** The requests that its clients have to repeat, and some that were answered already. */
  readonly works: readonly CarefulWork[];
  /** Tasks that were accepted, however they go on. */
  readonly tasks: ReadonlySet<string>;
  /** Envelopes of finished tasks that were shown, by id. */
  readonly finished: ReadonlyMap<string, string>;
  readonly collected: ReadonlySet<string>;
  /** Deliveries that were shown as delivered, by webhook-id. */
  readonly delivered: ReadonlySet<string>;
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
  const cutAt = record.timeOf(cut);
  const collector = new PromiseCollector(recording, { record, cut, cutAt });
  for (const entry of recording.history) collector.take(entry);
  const kills = recording.lives.flatMap(({ killedAt }) => killedAt ?? []);
  return {
    ...collector.promises(),
    // The account is promised when the command that makes it is over.
    hasAccount: cut > (record.lifeStarts[1] ?? Infinity),
    killedAt: [...kills.filter((at) => at < cutAt), cutAt],
  };
}

class PromiseCollector {
  readonly #place: { readonly record: DiskRecord; readonly cut: number; readonly cutAt: number };
  readonly #ledger: Ledger;
  readonly #posts = new Map<string, CarefulPost>();
  readonly #accepted: CarefulPost[] = [];
  readonly #cancelled = new Set<string>();
  readonly #tasks = new Set<string>();
  readonly #finished = new Map<string, string>();
  readonly #collected = new Set<string>();
  readonly #delivered = new Set<string>();
  readonly #revokedKeys = new Set<string>();
  readonly #validKeys = new Set<string>();

  constructor(
    { file }: Recording,
    place: { readonly record: DiskRecord; readonly cut: number; readonly cutAt: number },
  ) {
    this.#place = place;
    this.#ledger = new Ledger(file.account.webhookSecret);
  }

  promises(): Omit<PromisesAt, "hasAccount" | "killedAt"> {
    for (const { ids, isToCancel } of this.#accepted)
      if (!isToCancel) for (const id of idsOf(ids)) this.#ledger.acknowledge(id);
    return {
      ledger: this.#ledger,
      works: this.#works(),
      tasks: this.#tasks,
      finished: this.#finished,
      collected: this.#collected,
      delivered: this.#delivered,
      revokedKeys: this.#revokedKeys,
      validKeys: this.#validKeys,
    };
  }

  /** Takes an entry in unless it is from after the power cut. */
  take(entry: HistoryEntry): void {
    if (!this.#isBefore(entry)) return;
    switch (entry.kind) {
      case "post": {
        const { key, body, isToCancel } = entry;
        const post = { key, body, isToCancel, ids: null, wasCutOff: true };
        this.#posts.set(key, { kind: "post", ...post });
        break;
      }
      case "accepted":
        this.#accept(entry);
        break;
      case "cancelled":
        this.#cancelled.add(entry.id);
        if (entry.hasRun) this.#ledger.acknowledge(entry.id);
        else this.#ledger.cancel(entry.id);
        break;
      case "finished":
        this.#finished.set(entry.id, entry.text);
        if (entry.isCollected) this.#collected.add(entry.id);
        break;
      case "delivered":
        this.#delivered.add(entry.webhookId);
        break;
      case "key-made":
        this.#validKeys.add(entry.key);
        break;
      case "key-revocation":
        this.#validKeys.delete(entry.key);
        break;
      case "key-revoked":
        this.#revokedKeys.add(entry.key);
        break;
      case "webhook":
        this.#ledger.receive(entry.webhook, entry.status);
        break;
    }
  }

  #accept({ key, ids }: { readonly key: string; readonly ids: string }): void {
    const post = this.#posts.get(key);
    if (post === undefined) throw new Error(`${key} was answered before it was sent`);
    post.ids = ids;
    post.wasCutOff = false;
    this.#accepted.push(post);
    this.#ledger.promise(key, idsOf(ids).length);
    for (const id of idsOf(ids)) this.#tasks.add(id);
  }

  #works(): readonly CarefulWork[] {
    const unanswered = [...this.#posts.values()].filter(({ ids }) => ids === null);
    const cancels = this.#accepted
      .filter(({ isToCancel }) => isToCancel)
      .flatMap(({ ids }) => idsOf(ids))
      .filter((id) => !this.#cancelled.has(id))
      .map((id) => ({ kind: "cancel", id }) as const);
    return [...unanswered, ...this.#accepted.slice(-REPEATED_POSTS), ...cancels];
  }

  #isBefore(entry: HistoryEntry): boolean {
    const { record, cut, cutAt } = this.#place;
    if (entry.kind === "post" || entry.kind === "key-revocation") return entry.sentAt <= cutAt;
    const what =
      entry.kind === "webhook"
        ? `${entry.webhook.taskId}-${entry.webhook.kind} ${entry.webhook.attempt}`
        : entry.requestId;
    const place = record.said.get(what);
    if (place === undefined) throw new Error(`strace did not see the daemon write ${what}`);
    return place < cut;
  }
}

function idsOf(ids: string | null): readonly string[] {
  return ids === null || ids === "" ? [] : ids.split(",");
}
