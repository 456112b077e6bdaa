import type { DeliveryKind } from "../../domain/webhook/delivery.ts";
import { openReader } from "./machine/connection.ts";

/** Something that happens by itself when its time has come. */
export interface DueItem {
  /** By the wall clock. */
  readonly at: number;
  readonly what: "attempt" | "task_start" | "lease_end" | "erasure";
  readonly taskId: string;
  /** Of an attempt's webhook; null for everything else. */
  readonly kind: DeliveryKind | null;
}

/** Lists what waits in a file for its time. It may read all that waits: it is for development. */
export interface DueList {
  /** Up to `max` items after `now`, the earliest first. `steady` is the same moment by the steady clock. */
  list(query: { readonly now: number; readonly steady: number; readonly max: number }): DueItem[];
  /** True while a task waits to be started that could be. */
  isQueued(): boolean;
  close(): void;
}

// A task that ended keeps its place until its webhooks have.
const ITEMS = `
  SELECT at, what, taskId, kind FROM (
    SELECT due_at AS at, 'attempt' AS what, tasks.id AS taskId, kind
      FROM attempts JOIN tasks ON tasks.seq = task_seq WHERE attempts.started_at IS NULL
    UNION ALL
    SELECT start_at, 'task_start', id, NULL FROM tasks WHERE state = 'delayed'
    UNION ALL
    SELECT expires_at, 'lease_end', id, NULL FROM (
      SELECT leases.expires_at, id FROM leases JOIN tasks ON tasks.seq = task_seq WHERE ending IS NULL)
    UNION ALL
    SELECT erase_at + $now - $steady, 'erasure', id, NULL FROM tasks WHERE erase_at IS NOT NULL)
  WHERE at > $now ORDER BY at, taskId, kind LIMIT $max`;

const QUEUED = "SELECT EXISTS (SELECT 1 FROM tasks WHERE state = 'queued')";

/** Opens the list of a file that is served. */
export function openDueList(file: string): DueList {
  const connection = openReader(file);
  const items = connection.prepare<[object], DueItem>(ITEMS);
  const queued = connection.prepare<[], number>(QUEUED).pluck();
  return {
    list: (query) => items.all(query),
    isQueued: () => queued.get() === 1,
    close: () => void connection.close(),
  };
}
