import { createHash } from "node:crypto";

/** A task as both sides of a move must have it. */
export interface ComparedTask {
  readonly seq: number;
  readonly id: string;
  readonly state: string;
}

/** Reads up to so many tasks above a seq, in the order of their seqs. */
export type ReadTasks = (after: number, max: number) => Promise<readonly ComparedTask[]>;

const PAGE = 10_000;

/** The checksum of all tasks' ids and states, the same for the same tasks on both sides. */
export async function checksumOf(read: ReadTasks): Promise<string> {
  const hash = createHash("sha256");
  for (let after = -1; ;) {
    const tasks = await read(after, PAGE);
    for (const { seq, id, state } of tasks) hash.update(`${seq} ${id} ${state}\n`);
    const last = tasks.at(-1);
    if (last === undefined) return hash.digest("hex");
    after = last.seq;
  }
}

export const TASKS_OF_FILE = `SELECT seq, id, state FROM tasks WHERE seq > ? ORDER BY seq LIMIT ?`;

export const TASKS_OF_SERVER = `
  SELECT t.seq, t.id, coalesce(q.state, e.state) AS state
  FROM tasks AS t
  LEFT JOIN queue AS q ON q.task_seq = t.seq
  LEFT JOIN ends AS e ON e.task_seq = t.seq
  WHERE t.seq > $1 ORDER BY t.seq LIMIT $2`;
