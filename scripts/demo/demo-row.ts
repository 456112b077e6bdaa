import type { ApiTask } from "../kit/api-client.ts";
import { textTable } from "../kit/text-table.ts";
import type { ReceivedWebhook } from "../kit/webhook-receiver.ts";
import type { FileFacts } from "./sample-files.ts";

/** One task of the demo, from end to end. */
export interface DemoRow {
  readonly task: ApiTask;
  readonly facts: FileFacts;
  readonly webhook: ReceivedWebhook;
}

const COLUMNS = [
  { name: "task" },
  { name: "file" },
  { name: "SHA-256" },
  { name: "lines", align: "right" },
  { name: "bytes", align: "right" },
  { name: "reported by" },
  { name: "wait ms", align: "right" },
  { name: "run ms", align: "right" },
  { name: "delivery ms", align: "right" },
  { name: "signature" },
] as const;

const FILE_CHARACTERS_MAX = 36;

/** The tasks as a table, in the order given; all signatures have been verified. */
export function demoTable(rows: readonly DemoRow[]): string {
  const cells = rows.map(({ task, facts: { file, sha256, lines, bytes }, webhook }) => [
    `…${task.id.slice(-6)}`,
    file.length <= FILE_CHARACTERS_MAX ? file : `…${file.slice(1 - FILE_CHARACTERS_MAX)}`,
    `${sha256.slice(0, 12)}…`,
    String(lines),
    String(bytes),
    webhook.kind,
    elapsed(task.created_at, task.started_at),
    elapsed(task.started_at, task.completed_at),
    String(webhook.receivedAt - Date.parse(task.completed_at ?? "")),
    "verified",
  ]);
  return textTable(COLUMNS, cells);
}

function elapsed(from: string | null, to: string | null): string {
  return String(Date.parse(to ?? "") - Date.parse(from ?? ""));
}
