import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { ApiClient } from "../kit/api-client.ts";
import { DaemonProcess, createAccount } from "../kit/daemon-process.ts";
import type { Program } from "../kit/program.ts";

/** The folder of the demo's daemon, and its allowed targets. */
export interface DemoPlace {
  readonly program: Program;
  /** Throwaway: database and configuration lie in it. */
  readonly folder: string;
  /** The project, whose files the tasks read. */
  readonly root: string;
  readonly receiverPort: number;
}

/** A daemon with one task type and one account. */
export interface DemoDaemon {
  readonly daemon: DaemonProcess;
  readonly client: ApiClient;
  readonly webhookSecret: string;
}

const DATABASE = "demo.db";

/** Starts a daemon as an operator would: a configuration, an account, `start`. */
export async function startDemoDaemon(place: DemoPlace): Promise<DemoDaemon> {
  const { program, folder, root, receiverPort } = place;
  writeFileSync(join(folder, "postbackd.toml"), configuration(root));
  const account = await createAccount("demo", { program, folder, database: DATABASE });
  const target = `127.0.0.1:${receiverPort}`;
  const flags = ["--db", DATABASE, "--port", "0", "--allow-target", target];
  const daemon = await DaemonProcess.start({ program, folder, flags });
  const client = new ApiClient({ url: daemon.url, ...account });
  return { daemon, client, webhookSecret: account.webhookSecret };
}

// JSON strings are TOML strings too.
function configuration(root: string): string {
  const command = [process.execPath, join(root, "scripts", "demo", "file-facts.mjs")];
  return `
[types.file-facts]
command = ${JSON.stringify(command)}
cwd = ${JSON.stringify(root)}
timeout = "30s"
concurrency = 4
`;
}
