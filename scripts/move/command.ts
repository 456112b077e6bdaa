import { copyFileSync, existsSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

import Database from "better-sqlite3";
import pg from "pg";

import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, type DaemonPlace } from "../kit/daemon-file.ts";
import { runProgram } from "../kit/daemon-process.ts";
import { whole } from "../kit/flags.ts";
import { PostgresServer } from "../kit/postgres-server.ts";
import { factTable, numberColumns, textTable } from "../kit/text-table.ts";
import { requireSame, rowsOf, type TableRows } from "./file-rows.ts";
import { fillFile } from "./fill-file.ts";
import { runMove, type MoveEnd } from "./move-process.ts";

/** What a broken-off move left: nothing of use on the new side, or everything. */
type Left = "not ready" | "complete";

interface Site {
  readonly place: DaemonPlace;
  /** What is moved, again and again. */
  readonly original: string;
  readonly wanted: ReadonlyMap<string, TableRows>;
  readonly server: PostgresServer;
}

const SETTINGS = { shared_buffers: "512MB", max_wal_size: "4GB" };
const MIB = 1024 * 1024;

export const command = defineCommand({
  about:
    "Moves a file to a PostgreSQL server and back, kills the program on the way, has it go on, and compares all rows.",
  flags: {
    tasks: whole("tasks in the file", 20_000),
    kills: whole("kills each way, spread over its time", 20),
  },
  async run({ tasks, kills }, { place, note, print }) {
    const { database: original } = await createDaemonFile(place);
    fillFile(original, tasks);
    const wanted = rowsOf(original);
    const bytes = statSync(original).size;
    note(`a file of ${tasks.toLocaleString("en")} tasks, ${(bytes / MIB).toFixed(0)} MiB`);
    const parent = dirname(place.folder);
    await using server = await PostgresServer.start({ parent, settings: SETTINGS });
    const site = { place, original, wanted, server };
    const unbroken = await moveOnce(site, 0, null);
    print(unbrokenReport(unbroken, wanted));
    const left: Record<"there" | "back", Left[]> = { there: [], back: [] };
    for (let kill = 1; kill <= kills; kill++) {
      const part = (kill - 0.5) / kills;
      const killAfterMs = { there: part * unbroken.there.ms, back: part * unbroken.back.ms };
      const found = await moveOnce(site, kill, killAfterMs);
      left.there.push(...found.left.there);
      left.back.push(...found.left.back);
      const [there, back] = [found.left.there.join(), found.left.back.join()];
      note(`kill ${kill} of ${kills}: ${there} on the server, ${back} in the file`);
    }
    print(killReport(left));
  },
});

interface Moved {
  readonly there: MoveEnd;
  readonly back: MoveEnd;
  readonly left: Readonly<Record<"there" | "back", readonly Left[]>>;
}

/** There and back, each way killed at its time. Rejects when anything is not as it must be. */
async function moveOnce(
  site: Site,
  number: number,
  killAfterMs: { readonly there: number; readonly back: number } | null,
): Promise<Moved> {
  const { place, original, wanted, server } = site;
  const file = join(place.folder, `moved-${number}.db`);
  const back = join(place.folder, `back-${number}.db`);
  const url = await newSchema(server, number);
  copyFileSync(original, file);
  const left: { there: Left[]; back: Left[] } = { there: [], back: [] };
  if (killAfterMs !== null) {
    await runMove(place, { from: file, to: url, killAfterMs: killAfterMs.there });
    left.there.push(await leftThere(site, file, url));
  }
  const there = await runMove(place, { from: file, to: url });
  await requireRefusal(site, file);
  if (killAfterMs !== null) {
    await runMove(place, { from: url, to: back, killAfterMs: killAfterMs.back });
    left.back.push(existsSync(back) ? "complete" : "not ready");
  }
  const returned = existsSync(back) ? there : await runMove(place, { from: url, to: back });
  await requireRefusal(site, url);
  requireSame(rowsOf(back), wanted);
  for (const each of [file, `${file}-lock`, back]) rmSync(each, { force: true });
  await dropSchema(server, number);
  return { there, back: returned, left };
}

/** Looks at both sides of a move to the server that was killed. */
async function leftThere(site: Site, file: string, url: string): Promise<Left> {
  // Before the other side is looked at: the server may be at the COMMIT still.
  const isMarked = markOf(file);
  const isComplete = await isMovedTo(url);
  if (isComplete && !isMarked) throw new Error("both can be served: file and server");
  if (isMarked) await requireRefusal(site, file);
  return isComplete ? "complete" : "not ready";
}

/** True for a file that says of itself that it was moved. */
function markOf(file: string): boolean {
  const database = new Database(file);
  try {
    return database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'moved'").get() !== undefined;
  } finally {
    database.close();
  }
}

async function isMovedTo(url: string): Promise<boolean> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ name: string | null }>(
      "SELECT to_regclass('schema_version')::text AS name",
    );
    if (rows[0]?.name === null) return false;
    const found = await client.query("SELECT 1 FROM schema_version WHERE moved_from IS NOT NULL");
    return found.rowCount === 1;
  });
}

/** The program must refuse a database that was moved. */
async function requireRefusal({ place }: Site, database: string): Promise<void> {
  const { error, stderr } = await runProgram(["admin", "account", "list", "--db", database], place);
  if (error === null || !stderr.includes("was moved to")) {
    throw new Error(`a database that was moved can be used: ${database} (${stderr})`);
  }
}

async function newSchema({ url }: PostgresServer, number: number): Promise<string> {
  await withClient(url, (client) => client.query(`CREATE SCHEMA moved_${number}`));
  return `${url}?options=-csearch_path%3Dmoved_${number}`;
}

async function dropSchema({ url }: PostgresServer, number: number): Promise<void> {
  await withClient(url, (client) => client.query(`DROP SCHEMA moved_${number} CASCADE`));
}

async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

function unbrokenReport({ there, back }: Moved, wanted: ReadonlyMap<string, TableRows>): string {
  const rows = [...wanted.values()].reduce((sum, table) => sum + table.rows, 0);
  const line = (name: string, { ms, memoryBytes, walBytes }: MoveEnd): readonly string[] => [
    name,
    rows.toLocaleString("en"),
    (ms / 1000).toFixed(1),
    Math.round((rows * 1000) / ms).toLocaleString("en"),
    (memoryBytes / MIB).toFixed(0),
    (walBytes / MIB).toFixed(0),
  ];
  const columns = [
    { name: "" },
    ...numberColumns(["rows", "s", "rows/s", "memory MiB", "-wal MiB"]),
  ];
  return textTable(columns, [line("file to server", there), line("server to file", back)]);
}

function killReport(left: Readonly<Record<"there" | "back", readonly Left[]>>): string {
  const count = (all: readonly Left[], one: Left): number =>
    all.filter((each) => each === one).length;
  return factTable(
    (["there", "back"] as const).flatMap((way) => [
      [`killed ${way}: not ready, done by the next run`, count(left[way], "not ready")] as const,
      [`killed ${way}: complete`, count(left[way], "complete")] as const,
    ]),
    "all rows the same each time",
  );
}
