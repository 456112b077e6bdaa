import { setTimeout as sleep } from "node:timers/promises";

import { DaemonAddress } from "../kit/client.ts";
import {
  type DaemonFile,
  type DaemonPlace,
  DaemonProcess,
  createAccount,
  createDaemonFile,
  createWorker,
  daemonStart,
  startDaemon,
} from "../kit/daemon.ts";
import { acceptedIds, servedText, taskPostRequest } from "../kit/http.ts";
import { runLoad } from "../kit/load.ts";
import { descriptorCount, processUsage } from "../kit/processes.ts";
import { Random } from "../kit/random.ts";
import { failingAtFirst, openReceiver, webhookUrls } from "../kit/receiver.ts";
import { cleanAtExit } from "../kit/scratch.ts";
import { until } from "../kit/until.ts";
import { Client, type Habit } from "./client.ts";
import { WorkerFleet, type WorkerToken } from "./fleet.ts";
import { inspectAnytime } from "./inspection.ts";
import { LeaseLedger, Ledger } from "./ledger.ts";
import { judgeFlat, type Sample } from "./report.ts";
import {
  HttpService,
  LEASE_TYPES,
  countStarts,
  endMarked,
  killWithChildren,
  markedProcesses,
  soakSettings,
  writeCommand,
} from "./services.ts";
import {
  LOAD_EXPECTED,
  type Tally,
  finish,
  judgeFinished,
  judgeSettled,
  judgeShown,
} from "./verdict.ts";

/** A span to draw from. */
export interface Span {
  readonly min: number;
  readonly max: number;
}

/** How long to soak, and how hard. */
export interface SoakOptions {
  readonly place: DaemonPlace;
  /** Repeats the plan of faults and tasks; when each meets the other is the machine's choice. */
  readonly seed: number;
  readonly accounts: number;
  /** Of each account's client. */
  readonly habit: Habit;
  /** Connections that post all the time until the daemon is killed, without keys. */
  readonly loadConnections: number;
  readonly workerProcesses: number;
  /** The daemon is killed so often, and as long; then it lives on, under the clients alone. */
  readonly rounds: number;
  readonly killSeconds: number;
  readonly calmSeconds: number;
  /** From a start of the daemon to its kill: milliseconds, or tasks that it acknowledges. */
  readonly killAfter: Span & { readonly unit: "ms" | "tasks" };
  /** True if before every second daemon another one is killed before it is ready, or soon after. */
  readonly killsStarts: boolean;
  /** In milliseconds; null for those that live. */
  readonly workerKillEvery: Span | null;
  readonly serviceDeathEvery: Span | null;
  /** Nothing may stand still for longer. */
  readonly stallMsMax: number;
  /** Called with every fault as soon as it is found, and with every kill. */
  readonly onNews: (text: string) => void;
}

/** A daemon's life; the last one is not killed. */
export interface Life {
  readonly readyMs: number;
  readonly samples: Sample[];
  /** Tasks that it acknowledged, and webhooks that were missing when it was killed. */
  acknowledged: number;
  missing: number;
}

export interface SoakReport extends Tally {
  readonly seconds: number;
  readonly lives: readonly Life[];
  /** Of daemons, those while they started included. */
  readonly kills: number;
  readonly workerKills: number;
  readonly serviceDeaths: number;
  readonly serviceRequests: number;
  readonly ledger: Ledger;
  readonly leases: LeaseLedger["count"];
  readonly clients: readonly Client[];
}

const SAMPLE_MS = 5000;
const JUDGE_MS = 20_000;
// By then every event that concerns the same moment has been read.
const SETTLED_MS = 10_000;
const LOOPS = 4;
// The share of kills that leave the daemon's own helper processes to themselves.
const ALONE = 0.5;
const KILL_DELAY_MS_MAX = 30;
const SERVICE_DEATH: Span = { min: 500, max: 3000 };
// Processes that a daemon left behind get 5 s to end, and a second to disappear.
const ORPHAN_MS_MAX = 8000;
// Tasks of each post of the load, in turn.
const POSTED = [1, 10, 100];

// An eighth of the tasks has receivers that fail at first: retries and kills meet in one series. Interrupted attempts
// count too, so that no series can run out of retries.
const statusOf = failingAtFirst(/[01]$/, 2);

/**
 * Lets one database file live through everything at once: tasks of every kind of runner for several accounts, workers
 * with every fault, a service that fails and dies, commands that hang and fork, kill -9 for workers and for the daemon,
 * on the whole way from post to postback and while it starts. Then lets it come to rest, and holds what is there
 * against all that was seen. A process that is killed loses nothing that the kernel has taken from it: this shows what
 * a crash of the program does, not what a power cut does.
 */
export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  await using used = new AsyncDisposableStack();
  // With await: otherwise the resources would be released immediately.
  return await new Soak(await openWorld(options, used)).run();
}

type World = Awaited<ReturnType<typeof openWorld>>;

/** The daemon's file, and all processes around the daemon. */
async function openWorld(options: SoakOptions, used: AsyncDisposableStack) {
  const service = used.use(await HttpService.open());
  const mark = `${process.pid}-${options.seed}-${Date.now()}`;
  cleanAtExit(() => endMarked(mark));
  const more = soakSettings({ serviceUrl: service.url, mark });
  const file = await createDaemonFile(options.place, { more });
  writeCommand(file.folder);
  const random = new Random(options.seed);
  const [ledger, address] = [new Ledger(), new DaemonAddress()];
  const leases = new LeaseLedger(ledger);
  const { workerProcesses: processes, habit } = options;
  const tokens = processes > 0 ? await workerTokens(file) : [];
  const workers = { ledger: leases, random: new Random(random.fork()), processes, loops: LOOPS };
  const fleet = used.use(new WorkerFleet({ ...workers, tokens }));
  const clients: Client[] = [];
  for (let number = 0; number < options.accounts; number++) {
    const account = number === 0 ? file.account : await createAccount(`soak-${number}`, file);
    const { webhookSecret: secret } = account;
    const receiver = await openReceiver(
      (webhook, status) => ledger.receive(webhook, { status, secret }),
      { statusOf },
    );
    const webhooks = webhookUrls(used.use(receiver));
    const own = { account, webhooks, random: new Random(random.fork()) };
    clients.push(new Client({ ...own, address, ledger, habit }));
  }
  return { options, file, mark, random, ledger, leases, address, clients, fleet, service };
}

async function workerTokens(file: DaemonFile): Promise<readonly WorkerToken[]> {
  const types = Object.keys(LEASE_TYPES);
  const one = types.slice(0, 1);
  return [
    { types, token: await createWorker({ name: "all", types }, file) },
    { types: one, token: await createWorker({ name: "one", types: one }, file) },
  ];
}

class Soak {
  readonly #world: World;
  readonly #posting = new AbortController();
  readonly #trouble = new AbortController();
  readonly #killedAt: number[] = [];
  readonly #lives: Life[] = [];
  readonly #faults = new Set<string>();
  #serviceDeaths = 0;

  constructor(world: World) {
    this.#world = world;
  }

  async run(): Promise<SoakReport> {
    const { options, address, clients, fleet, service, ledger, leases } = this.#world;
    const startedAt = performance.now();
    const troubles = this.#troubles();
    const posts = Promise.all(clients.map((client) => client.run(this.#posting.signal)));
    // A failure ends the soak: it is awaited below, and here only kept from being unhandled.
    posts.catch(() => this.#posting.abort());
    const killsUntil = startedAt + options.killSeconds * 1000;
    try {
      while (this.#lives.length < options.rounds && performance.now() < killsUntil) {
        if (this.#posting.signal.aborted) break;
        await this.#killedLife();
      }
      const tally = await this.#lastLife(posts);
      await troubles;
      this.#blame(tally.faults);
      this.#blame(judgeFlat(this.#lives.at(-1)?.samples ?? []));
      return {
        ...tally,
        ...{ ledger, clients, lives: this.#lives, leases: leases.count },
        seconds: (performance.now() - startedAt) / 1000,
        kills: this.#killedAt.length,
        workerKills: fleet.kills,
        serviceDeaths: this.#serviceDeaths,
        serviceRequests: service.requests,
        faults: [...this.#faults],
      };
    } finally {
      address.isOver = true;
      this.#posting.abort();
      this.#trouble.abort();
    }
  }

  async #killedLife(): Promise<void> {
    const { options, ledger } = this.#world;
    if (options.killsStarts && this.#lives.length % 2 === 1) await this.#killStart();
    await using daemon = await this.#start();
    using life = this.#watch(daemon);
    const before = ledger.tasks.size;
    await Promise.all([this.#load(daemon), this.#killInTime(daemon)]);
    life.acknowledged = ledger.tasks.size - before;
    life.missing = ledger.missing;
    const what = `${life.acknowledged} acknowledged tasks, ${life.missing} webhooks missing`;
    options.onNews(`ready in ${daemon.readyMs.toFixed(0)} ms, killed after ${what}`);
  }

  // A kill in the first half would only meet Node reading the program.
  async #killStart(): Promise<void> {
    const { file, random } = this.#world;
    const readyMs = this.#lives.at(-1)?.readyMs ?? 0;
    await DaemonProcess.startAndKill(daemonStart(file), readyMs * (0.5 + random.next() / 2));
    this.#killedAt.push(Date.now());
  }

  async #killInTime(daemon: DaemonProcess): Promise<void> {
    const { options, address, ledger, random } = this.#world;
    const { unit, min, max } = options.killAfter;
    const now = (): number => (unit === "ms" ? performance.now() : ledger.tasks.size);
    const killAt = now() + random.between(min, max);
    const isTime = (): boolean => {
      daemon.requireRunning();
      return now() >= killAt || this.#posting.signal.aborted;
    };
    const fault = (): string => "no task was acknowledged for too long";
    await until(isTime, { msMax: options.stallMsMax, everyMs: 5, progress: now, fault });
    await sleep(random.between(0, KILL_DELAY_MS_MAX));
    address.url = null;
    if (random.chance(ALONE)) await daemon.kill();
    else await killWithChildren(daemon);
    this.#killedAt.push(Date.now());
  }

  /** Settles when the kill has broken its connections. */
  async #load({ port }: DaemonProcess): Promise<void> {
    const { options, file, ledger, clients } = this.#world;
    const { key } = file.account;
    const tasks = POSTED[this.#lives.length % POSTED.length] ?? 1;
    await runLoad({
      port,
      connections: options.loadConnections,
      request: Buffer.from(taskPostRequest({ key, tasks, type: "echo", ...clients[0]?.webhooks })),
      goesOn: () => true,
      onAnswer: (message) => {
        for (const id of acceptedIds(servedText(message))) {
          ledger.acknowledge(id, { key, expected: LOAD_EXPECTED });
          ledger.owe(id);
        }
      },
    });
  }

  async #lastLife(posts: Promise<unknown>): Promise<Tally> {
    const { options, file, fleet, ledger, leases, address } = this.#world;
    const { stallMsMax } = options;
    await using daemon = await this.#start();
    using _life = this.#watch(daemon);
    const { signal } = this.#posting;
    await sleep(options.calmSeconds * 1000, undefined, { signal }).catch(() => {});
    this.#posting.abort();
    // If requests fail because it has ended, that is the reported reason.
    await address.within(stallMsMax, posts).finally(() => daemon.requireRunning());
    this.#trouble.abort();
    fleet.turnHonest();
    const { database } = file;
    await finish(daemon, { database, ledger, stallMsMax }).catch((error: unknown) => {
      this.#blame([String(error)]);
    });
    this.#blame(await judgeShown(ledger, daemon.url));
    await fleet[Symbol.asyncDispose]();
    address.url = null;
    await daemon.stop();
    this.#blame(this.#left());
    const seen = { ledger, leases, killedAt: this.#killedAt, starts: countStarts(file.folder) };
    return judgeFinished(database, { ...seen, hasLoad: options.loadConnections > 0 });
  }

  /** Starts the daemon and looks at what the one before left in the file and among the processes. */
  async #start(): Promise<DaemonProcess> {
    const { file, mark, ledger, address, fleet } = this.#world;
    const orphans = markedProcesses(mark);
    const daemon = await startDaemon(file);
    this.#blame(inspectAnytime(file.database, ledger));
    address.moveTo(daemon);
    fleet.moveTo(daemon.url);
    setTimeout(() => this.#blame(this.#left(orphans)), ORPHAN_MS_MAX).unref();
    return daemon;
  }

  /** Which of the named processes still run; all processes unless named. */
  #left(before: ReadonlySet<string> | null = null): readonly string[] {
    const now = [...markedProcesses(this.#world.mark)];
    const left = now.filter((each) => before === null || before.has(each));
    return left.map((each) => `process ${each} outlived its daemon`);
  }

  /** A life that is sampled until it is disposed of. */
  #watch(daemon: DaemonProcess): Life & Disposable {
    const { pid, readyMs } = daemon;
    const startedAt = performance.now();
    const samples: Sample[] = [];
    const timer = setInterval(() => {
      // For a process that is being killed Linux returns nothing, or zeros.
      if (!daemon.isRunning || this.#world.address.url === null) return;
      const atMs = performance.now() - startedAt;
      const { rssBytes } = processUsage(pid);
      samples.push({ atMs, rssBytes, descriptors: descriptorCount(pid) });
    }, SAMPLE_MS);
    const end = { [Symbol.dispose]: () => clearInterval(timer) };
    const life = { readyMs, samples, acknowledged: 0, missing: 0, ...end };
    this.#lives.push(life);
    return life;
  }

  /** Settles when the faults are over and nothing of them is under way any more. */
  async #troubles(): Promise<void> {
    const { options, random: parent, fleet, service, leases } = this.#world;
    const random = new Random(parent.fork());
    const draw = ({ min, max }: Span): number => random.between(min, max);
    const often = async (span: Span | null, act: () => Promise<void> | void): Promise<void> => {
      const { signal } = this.#trouble;
      while (span !== null && !signal.aborted) {
        const isOver = await sleep(draw(span), false, { signal }).catch(() => true);
        if (!isOver) await act();
      }
    };
    await Promise.all([
      often(options.workerKillEvery, () => fleet.killOne()),
      often(options.serviceDeathEvery, async () => {
        this.#serviceDeaths++;
        await service.die(draw(SERVICE_DEATH));
      }),
      often({ min: JUDGE_MS, max: JUDGE_MS }, () => {
        this.#blame(judgeSettled(leases, Date.now() - SETTLED_MS));
      }),
    ]);
  }

  #blame(faults: readonly string[]): void {
    for (const fault of faults) {
      if (!this.#faults.has(fault)) this.#world.options.onNews(`FAULT: ${fault}`);
      this.#faults.add(fault);
    }
  }
}
