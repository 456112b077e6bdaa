import { createHash } from "node:crypto";
import { lstatSync, mkdirSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";

import { version } from "../assets.ts";
import type { Config } from "../config/config.ts";
import { withPasswordOf, type ServerUrl } from "../domain/address/server-url.ts";
import { codeOf, messageOf } from "../domain/error.ts";
import { nodeNameOf } from "../domain/lease/lease.ts";
import { missingStandby } from "../domain/stats/health.ts";
import { pidNamespace } from "../run/processes.ts";
import { readServerAddress, type ServerAddress } from "../store/postgres/machine/server-address.ts";
import type { PostgresStoreOptions } from "../store/postgres/postgres-store.ts";
import {
  InstanceLock,
  InstanceLockError,
  readHolder,
  type LockHolder,
} from "../store/sqlite/machine/instance-lock.ts";
import { StoreError, type Store } from "../store/store.ts";
import { DatabaseError } from "./database.ts";
import type {
  AdminStore,
  Database,
  DatabaseSizes,
  DaemonStoreParts,
  Migrated,
  Watch,
  WatchParts,
} from "./database.ts";
import { ServerWatch } from "./storage.ts";

const SERVER_BACKUP =
  "the database is on a PostgreSQL server, whose own tools do this better: 'pg_dump --format=custom' for a copy and " +
  "'pg_restore' to bring it back, or pg_basebackup with archived WAL to go back to any moment";

type ServerConfig = Pick<Config, "node" | "notify" | "limits">;

/** A shared PostgreSQL database. On this machine only the node's name is locked: its commands run under it. */
export class ServerDatabase implements Database {
  readonly #url: ServerUrl;
  /** The URL as it was read last. */
  #read: ServerUrl;
  readonly #config: ServerConfig;
  readonly #name: string;

  constructor(url: ServerUrl, config: ServerConfig) {
    this.#read = url;
    this.#url = withPasswordOf(url, () => this.#read);
    this.#config = config;
    this.#name = config.node.name ?? nodeNameOf(hostname());
  }

  reload({ server }: Config): void {
    if (server !== null) this.#read = server;
  }

  lock(): InstanceLock {
    makeStateFolder(this.#config.node);
    try {
      return InstanceLock.acquire(this.#lockBase());
    } catch (error) {
      if (error instanceof InstanceLockError) throw this.#nameIsTaken(error);
      throw stateFolderError(stateFolderOf(this.#config.node), messageOf(error), error);
    }
  }

  explain(error: unknown): unknown {
    return error;
  }

  holder(): LockHolder | null {
    return readHolder(this.#lockBase());
  }

  async openDaemonStore({ log, observer }: DaemonStoreParts): Promise<Store> {
    const store = await this.#open({ kind: "node", log, observer });
    const fault = await standbyFault(store);
    if (fault === null) return store;
    await store.close();
    throw fault;
  }

  becomeOwner(): null {
    return null;
  }

  async openAdminStore(): Promise<AdminStore> {
    return { store: await this.#open({ kind: "tool" }), isNew: false };
  }

  async migrate(): Promise<Migrated> {
    const { migrateDatabase } = await import("../store/postgres/machine/migrate.ts");
    return withServer(this.#url, migrateDatabase);
  }

  // Two containers may each hold a lock of the same name, in temporary folders of their own: a process id of another
  // container does not show whether that process runs.
  commandOwner(): string {
    return `${this.#lockName()}-${pidNamespace()}`;
  }

  watch(parts: WatchParts): Watch {
    return new ServerWatch(parts);
  }

  freeBytes(): number {
    return Number.POSITIVE_INFINITY;
  }

  async sizes(): Promise<DatabaseSizes> {
    return { bytes: null, walBytes: null, diskFreeBytes: null, diskTotalBytes: null };
  }

  clearWal(): boolean {
    return true;
  }

  startBackup(): never {
    throw new DatabaseError(SERVER_BACKUP);
  }

  async restore(): Promise<never> {
    throw new DatabaseError(SERVER_BACKUP);
  }

  async #open(how: Pick<PostgresStoreOptions, "kind" | "log" | "observer">): Promise<Store> {
    const { notify, limits } = this.#config;
    const node = { name: this.#name, url: this.#config.node.url, version };
    // Not before it is asked for: a daemon with a file needs none of it.
    const { openPostgresStore } = await import("../store/postgres/postgres-store.ts");
    return withServer(this.#url, (server) =>
      openPostgresStore({ server, node, notify, backlogMax: limits.writeBacklog, ...how }),
    );
  }

  #nameIsTaken({ holder }: InstanceLockError): DatabaseError {
    const who = holder === null ? "another process" : `process ${holder.pid}`;
    const where = holder?.url ? ` at ${holder.url}` : "";
    return new DatabaseError(
      `a node ${this.#name} of ${this.#url.shown} runs on this machine already: ${who}${where}; stop it first, or ` +
        "give this one a name of its own with --node-name",
    );
  }

  #lockBase(): string {
    return join(stateFolderOf(this.#config.node), this.#lockName());
  }

  /** Nodes of different PostgreSQL servers may have the same name, mostly the machine's name. */
  #lockName(): string {
    const server = createHash("sha256").update(this.#url.shown).digest("hex").slice(0, 12);
    return `node-${this.#name}-${server}`;
  }
}

/** An error of the store about a server, or about its TLS files, becomes a {@link DatabaseError}: it names the remedy. */
async function withServer<T>(
  url: ServerUrl,
  use: (server: ServerAddress) => Promise<T>,
): Promise<T> {
  try {
    return await use(readServerAddress(url));
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw new DatabaseError(error.message, { cause: error });
  }
}

/** A start would wait at its first write, without a message. */
async function standbyFault(store: Store): Promise<DatabaseError | null> {
  // Facts that cannot be read now do not prevent a start.
  const health = await store.findDatabaseHealth().catch(() => null);
  const missing = health === null ? null : missingStandby(health);
  return missing === null ? null : new DatabaseError(missing.text);
}

type NodeConfig = Config["node"];

/** The folder of the lock. It guards processes of this boot, so it may be temporary: the root may be read-only. */
function stateFolderOf({ stateFolder }: NodeConfig): string {
  return stateFolder ?? join(tmpdir(), `postbackd-${process.geteuid?.() ?? "user"}`);
}

/** Makes the folder, for this user only. Throws a {@link DatabaseError} when it cannot be had. */
function makeStateFolder(node: NodeConfig): void {
  const folder = stateFolderOf(node);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw stateFolderError(
      folder,
      `it cannot be made (${codeOf(error) ?? messageOf(error)})`,
      error,
    );
  }
  if (node.stateFolder !== null) return;
  // Every user may create a link or a folder of this name in a temporary folder, and SQLite would follow it.
  const found = lstatSync(folder);
  const isOwn = found.uid === (process.geteuid?.() ?? found.uid);
  if (found.isDirectory() && isOwn && (found.mode & 0o022) === 0) return;
  throw stateFolderError(folder, "it is not a folder that this user alone may write");
}

function stateFolderError(folder: string, reason: string, cause?: unknown): DatabaseError {
  const message = `the state folder ${folder} cannot be used: ${reason}; name another with node.state_folder`;
  return new DatabaseError(message, { cause });
}
