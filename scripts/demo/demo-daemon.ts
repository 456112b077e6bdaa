import { join } from "node:path";

import { ApiClient } from "../kit/api-client.ts";
import { createDaemonFile, startDaemon, type DaemonPlace } from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";

/** The folder of the demo's daemon, and its allowed targets. */
export interface DemoPlace extends DaemonPlace {
  /** The project, whose files the tasks read. */
  readonly root: string;
  readonly receiverPort: number;
}

/** A daemon with a type that looks at files, and its account. */
export interface DemoDaemon {
  readonly daemon: DaemonProcess;
  readonly client: ApiClient;
  readonly webhookSecret: string;
}

/** Starts a daemon as an operator would: a configuration, an account, `start`. */
export async function startDemoDaemon(place: DemoPlace): Promise<DemoDaemon> {
  const { root, receiverPort } = place;
  const allowed = `127.0.0.1:${receiverPort}`;
  const file = await createDaemonFile(place, { allowed, more: typeOf(root) });
  const daemon = await startDaemon(file);
  const client = new ApiClient({ url: daemon.url, ...file.account });
  return { daemon, client, webhookSecret: file.account.webhookSecret };
}

// JSON strings are TOML strings too.
function typeOf(root: string): string {
  const command = [process.execPath, join(root, "scripts", "demo", "file-facts.mjs")];
  return `
[types.file-facts]
command = ${JSON.stringify(command)}
cwd = ${JSON.stringify(root)}
timeout = "30s"
concurrency = 4
`;
}
