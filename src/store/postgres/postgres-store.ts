import { settlesWithin, systemClock } from "../../domain/clock/clock.ts";
import { everyStep } from "../../domain/error.ts";
import type { Logger } from "../../domain/log.ts";
import type { Observer } from "../../domain/observer.ts";
import { observedTransport } from "../common/batch.ts";
import { GroupCommit } from "../common/group-commit.ts";
import { BATCH_WEIGHT_MAX } from "../common/write-rule.ts";
import type { Store } from "../store.ts";
import type { NewWork } from "./machine/batch.ts";
import { Dialer } from "./machine/dialer.ts";
import { BEAT_MS, type NodeName } from "./machine/heartbeat.ts";
import { makeSchema } from "./machine/migrate.ts";
import { ServerNode, WRITERS } from "./machine/node.ts";
import { Notifications } from "./machine/notifications.ts";
import { Reader, SnapshotReader } from "./machine/reader.ts";
import { SCHEMA } from "./machine/schema.ts";
import type { ServerAddress } from "./machine/server-address.ts";
import { ClientWaits, Writer, Writers } from "./machine/writer.ts";
import { otherMethods, writeMethods } from "./methods.ts";
import { NodeMemory } from "./scan-starts.ts";
import { ServerAccess } from "./server-access.ts";
import { type Writes, newBatchWork, tellingTransport } from "./writes.ts";

/** How to open the store. */
export interface PostgresStoreOptions {
  readonly server: ServerAddress;
  /** `node` for a daemon; `tool` for a process that takes a few steps and ends. */
  readonly kind: "node" | "tool";
  /** How the others and the operator know a node. */
  readonly node?: NodeName;
  /** False where notifications do not arrive: other nodes then learn by asking, each second. */
  readonly notify: boolean;
  /** Client writes are refused while this many rows wait. */
  readonly backlogMax: number;
  /** How many tasks a page may look at; by default the number of {@link Store.listTasks}. */
  readonly examineMax?: number | undefined;
  readonly observer?: Observer | undefined;
  readonly log?: Logger;
  /**
   * Time between the heartbeats of this node, which all nodes of a database must agree on: {@link BEAT_MS} but in tests.
   */
  readonly beatMs?: number;
  /** How long a batch waits for rows that another session has locked: a second, except in tests. */
  readonly lockMs?: number;
}

const SHORT_READERS = 2;
const LONG_READERS = 2;

/**
 * Opens the store on a PostgreSQL server, which other daemons may share: joins them, and makes the tables of an empty
 * database. Writes go over two connections with group commit, reads over others.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { backlogMax, observer, examineMax, lockMs } = options;
  await prepareSchema(options);
  const { dialer, node } = newNode(options);
  const notifications = new Notifications({
    dialer,
    clock: systemClock,
    hasOthers: () => options.notify && node.hasOthers,
    log: options.log,
  });
  const memory = new NodeMemory(() => node.clock.now());
  const clients = new ClientWaits({
    clock: systemClock,
    msMax: node.patienceMs,
    isOutOfReach: () => node.isOutOfReach,
  });
  const newWork: NewWork = (sql) => newBatchWork(sql, memory);
  const all = { node, clients, lockMs, newWork };
  const writers = Array.from({ length: WRITERS }, (_, index) => new Writer({ ...all, index }));
  const telling = tellingTransport(new Writers(writers), (news) => notifications.note(news));
  const transport = observedTransport(telling, { observer, clock: systemClock });
  const commit = new GroupCommit<Writes>(transport, {
    batchWeightMax: BATCH_WEIGHT_MAX,
    backlogWeightMax: backlogMax,
    survivesDoubt: true,
  });
  const connect = () => node.connectReader();
  const reader = new Reader(connect, SHORT_READERS);
  const longReader = new SnapshotReader(connect, LONG_READERS);
  const nodeSeq = async (): Promise<number> => (await node.life()).nodeSeq;
  const access = new ServerAccess({
    reader,
    longReader,
    commit,
    node: { nodeSeq },
    memory,
    clients,
  });
  await node.open().catch((error: unknown) => {
    node.shut();
    throw error;
  });
  if (options.notify && options.kind === "node") notifications.start();
  let closing: Promise<void> | null = null;
  return {
    cluster: node,
    listNodes: () => node.list(reader),
    ...access.reads,
    ...writeMethods(access),
    ...otherMethods(access, { examineMax }),
    watch(listener) {
      const stops = [commit.watch(listener), notifications.watch(listener)];
      return () => stops.forEach((stop) => stop());
    },
    close() {
      closing ??= close({ access, node, commit, notifications, readers: [reader, longReader] });
      return closing;
    },
  };
}

async function prepareSchema({ server, kind, log }: PostgresStoreOptions): Promise<void> {
  const version = await makeSchema(server);
  if (version >= SCHEMA.version || kind === "tool") return;
  log?.info(
    { version, needed: SCHEMA.version },
    "the tables are of the version before: run 'postbackd database migrate' once all daemons run this program",
  );
}

interface OpenParts {
  readonly access: ServerAccess;
  readonly node: ServerNode;
  readonly commit: GroupCommit<Writes>;
  readonly notifications: Notifications;
  readonly readers: readonly (Reader | SnapshotReader)[];
}

// A step that was asked for may take as long as it needs while the server answers.
const LOOK_MS = 500;

async function close({ access, node, commit, notifications, readers }: OpenParts): Promise<void> {
  const done = Promise.all([access.close(), commit.stop()]);
  while (!(await settlesWithin(done, LOOK_MS, systemClock))) {
    if (node.isMember() && (await node.isReached())) continue;
    node.shut();
    break;
  }
  await everyStep([
    ...readers.map((reader) => () => reader.close()),
    () => done,
    () => commit.close(),
    () => notifications.close(),
    () => node.leave(),
  ]);
}

function newNode(options: PostgresStoreOptions): { dialer: Dialer; node: ServerNode } {
  const { server, kind, beatMs = BEAT_MS, log } = options;
  const name = options.node ?? { name: "tool", url: null, version: "" };
  const clock = systemClock;
  const dialer = new Dialer({ server, applicationName: `postbackd ${name.name}`, clock, log });
  return { dialer, node: new ServerNode({ dialer, name, kind, clock, beatMs, log }) };
}
