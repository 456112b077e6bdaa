import type { DueItem, DueList } from "../store.ts";
import { openReader } from "./machine/connection.ts";

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
