import { setTimeout as sleep } from "node:timers/promises";

import {
  createDaemonFile,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
} from "../kit/daemon-file.ts";
import {
  createAccount,
  createWorker,
  type DaemonProcess,
  type NewAccount,
} from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { cleanAtExit } from "../kit/exit-cleanup.ts";
import { descriptorCount, processUsage } from "../kit/processes.ts";
import { Random } from "../kit/random.ts";
import {
  failingAtFirst,
  openReceiver,
  webhookUrls,
  type WebhookUrls,
} from "../kit/webhook-receiver.ts";
import { killWithChildren } from "./daemon-kill.ts";
import { every } from "./every.ts";
import { HttpService } from "./http-service.ts";
import { inspectAnytime } from "./inspection.ts";
import { LeaseLedger, type LeaseCount } from "./lease-ledger.ts";
import { Ledger } from "./ledger.ts";
import { endMarked, markedProcesses } from "./marked-processes.ts";
import { judgeFlat, type Sample } from "./samples.ts";
import { LEASE_TYPES, soakSettings, writeCommand } from "./setup.ts";
import { SoakClient, type BookedTask, type DaemonAddress } from "./soak-client.ts";
import {
  allCancelled,
  judgeSettled,
  judgeShown,
  judgeSoak,
  lostCompletions,
  type SoakTally,
} from "./verdict.ts";
import { WorkerFleet } from "./worker-fleet.ts";

/** A span to draw a time from, in milliseconds. */
export interface Span {
  readonly min: number;
  readonly max: number;
}

/** How long to soak, and how hard. */
export interface SoakOptions {
  readonly place: DaemonPlace;
  /** Repeats the plan of faults and tasks; when each meets the other is the machine's choice. */
  readonly seed: number;
  /** The daemon is killed again and again in the first half, and never in the second. */
  readonly seconds: number;
  /** Of all accounts together. */
  readonly tasksPerSecond: number;
  readonly accounts: number;
  readonly workerProcesses: number;
  /** From the start of a daemon to its kill. */
  readonly killAfter: Span;
  readonly workerKillEvery: Span;
  readonly serviceDeathEvery: Span;
  /** Everything must be over so soon after the last post. */
  readonly quietMsMax: number;
  /** Called with every fault as soon as it is found, and with every kill. */
  readonly onNews: (text: string) => void;
}

/** The result of a soak. */
export interface SoakReport extends Omit<SoakTally, "faults"> {
  readonly seconds: number;
  readonly acknowledged: number;
  readonly kills: number;
  readonly workerKills: number;
  readonly serviceDeaths: number;
  readonly serviceRequests: number;
  readonly webhooks: number;
  readonly leases: LeaseCount;
  /** Of every daemon's life, the last of which is the long one. */
  readonly lives: readonly (readonly Sample[])[];
  readonly faults: readonly string[];
}

const SAMPLE_MS = 5000;
const JUDGE_MS = 20_000;
// By then every event that concerns the same moment has been read.
const SETTLED_MS = 10_000;
const LOOPS = 4;
// The share of kills that leave the daemon's own helper processes to themselves.
const ALONE = 0.5;
const SERVICE_DEATH: Span = { min: 500, max: 3000 };
// What a daemon left behind it gives 5 s to end, and a second to be gone.
const ORPHAN_MS_MAX = 8000;

// A sixteenth of the tasks has receivers that fail at first.
const statusOf = failingAtFirst(/0$/, 1);

/**
 * Lets one database file live through everything at once: tasks of every kind of runner for several accounts, workers
 * with every fault, a service that fails and dies, commands that hang and fork, kill -9 for workers and for the daemon.
 * Then lets it come to rest, and holds what is there against all that was seen.
 */
export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  await using service = await HttpService.open();
  const soak = await Soak.prepare(options, service);
  await using fleet = soak.fleet;
  await using receivers = new AsyncDisposableStack();
  const clients = await Promise.all(
    soak.accounts.map(async (account) => {
      const ledger = new Ledger(account.webhookSecret);
      const receiver = await openReceiver((...arrived) => ledger.receive(...arrived), { statusOf });
      receivers.use(receiver);
      return soak.newClient({ account, ledger, webhooks: webhookUrls(receiver) });
    }),
  );
  // Not without await: what is used here would be gone at once.
  return await soak.run({ clients, fleet, service });
}

interface Players {
  readonly clients: readonly SoakClient[];
  readonly fleet: WorkerFleet;
  readonly service: HttpService;
}

class Soak {
  readonly accounts: readonly NewAccount[];
  readonly fleet: WorkerFleet;
  readonly #options: SoakOptions;
  readonly #random: Random;
  readonly #file: DaemonFile;
  readonly #mark: string;
  readonly #leases: LeaseLedger;
  readonly #address: DaemonAddress = { url: null, isOver: false };
  readonly #spans: AbortController[] = [];
  readonly #book = new Map<string, BookedTask>();
  readonly #ledgers: Ledger[] = [];
  readonly #killedAt: number[] = [];
  readonly #lives: Sample[][] = [];
  readonly #faults = new Set<string>();
  #serviceDeaths = 0;

  private constructor(deps: {
    readonly options: SoakOptions;
    readonly random: Random;
    readonly file: DaemonFile;
    readonly mark: string;
    readonly accounts: readonly NewAccount[];
    readonly tokens: ConstructorParameters<typeof WorkerFleet>[0]["tokens"];
  }) {
    const { options, random, tokens } = deps;
    this.accounts = deps.accounts;
    this.#options = options;
    this.#random = random;
    this.#file = deps.file;
    this.#mark = deps.mark;
    this.#leases = new LeaseLedger();
    const processes = options.workerProcesses;
    const fleet = { ledger: this.#leases, random: new Random(random.fork()), tokens };
    this.fleet = new WorkerFleet({ ...fleet, processes, loops: LOOPS });
  }

  static async prepare(options: SoakOptions, service: HttpService): Promise<Soak> {
    const mark = `${process.pid}-${options.seed}-${Date.now()}`;
    cleanAtExit(() => endMarked(mark));
    const more = soakSettings({ serviceUrl: service.url, mark });
    const file = await createDaemonFile(options.place, { more });
    writeCommand(file.folder);
    const accounts = [file.account];
    while (accounts.length < options.accounts) {
      accounts.push(await createAccount(`soak-${accounts.length}`, file));
    }
    const types = Object.keys(LEASE_TYPES);
    const [first = ""] = types;
    const tokens = [
      { types, token: await createWorker({ name: "all", types }, file) },
      { types: [first], token: await createWorker({ name: "one", types: [first] }, file) },
    ];
    const random = new Random(options.seed);
    return new Soak({ options, random, file, mark, accounts, tokens });
  }

  newClient(given: {
    readonly account: NewAccount;
    readonly ledger: Ledger;
    readonly webhooks: WebhookUrls;
  }): SoakClient {
    this.#ledgers.push(given.ledger);
    return new SoakClient({
      ...given,
      address: this.#address,
      leases: this.#leases,
      book: this.#book,
      random: new Random(this.#random.fork()),
      tasksPerSecond: this.#options.tasksPerSecond / this.#options.accounts,
    });
  }

  async run(players: Players): Promise<SoakReport> {
    const startedAt = performance.now();
    const [posting, trouble] = [this.#newSpan(), this.#newSpan()];
    const troubles = this.#troubles(players, trouble.signal);
    const posts = Promise.all(players.clients.map((client) => client.run(posting.signal)));
    // A failure ends the soak: it is awaited below, and here only kept from being unhandled.
    posts.catch(() => posting.abort());
    const halfMs = (this.#options.seconds * 1000) / 2;
    try {
      while (performance.now() - startedAt < halfMs && !posting.signal.aborted) {
        await this.#shortLife(players.fleet);
      }
      const untilMs = startedAt + 2 * halfMs;
      const calm = (): void => trouble.abort();
      const tally = await this.#longLife(players, { untilMs, posting, posts, calm });
      await troubles;
      return this.#report({ ...players, tally, startedAt });
    } finally {
      this.#address.isOver = true;
      for (const span of this.#spans) span.abort();
    }
  }

  /** Work that goes on until it is aborted, or the soak is over. */
  #newSpan(): AbortController {
    const span = new AbortController();
    this.#spans.push(span);
    return span;
  }

  async #shortLife(fleet: WorkerFleet): Promise<void> {
    await using daemon = await this.#start(fleet);
    const watch = this.#watch(daemon);
    const { min, max } = this.#options.killAfter;
    await sleep(this.#random.between(min, max));
    daemon.requireRunning();
    watch.abort();
    this.#address.url = null;
    if (this.#random.chance(ALONE)) await daemon.kill();
    else await killWithChildren(daemon);
    this.#killedAt.push(Date.now());
    this.#options.onNews(
      `kill -9 number ${this.#killedAt.length}, ${this.#book.size} tasks so far`,
    );
  }

  async #longLife(
    { fleet }: Players,
    plan: {
      readonly untilMs: number;
      readonly posting: AbortController;
      readonly posts: Promise<unknown>;
      /** Ends the faults. */
      readonly calm: () => void;
    },
  ): Promise<SoakTally> {
    const { quietMsMax } = this.#options;
    await using daemon = await this.#start(fleet);
    const watch = this.#watch(daemon);
    const waiting = { signal: plan.posting.signal };
    const leftMs = Math.max(0, plan.untilMs - performance.now());
    await sleep(leftMs, undefined, waiting).catch(() => {});
    plan.posting.abort();
    try {
      await plan.posts;
    } finally {
      // The reason why nothing is answered any more, where that is it.
      daemon.requireRunning();
    }
    plan.calm();
    fleet.turnHonest();
    using view = new DatabaseView(this.#file.database);
    await view.quiet({ msMax: quietMsMax }).catch((error) => this.#blame([String(error)]));
    watch.abort();
    const shown = await judgeShown(this.#evidence, { url: daemon.url, accounts: this.accounts });
    this.#blame(shown);
    await fleet[Symbol.asyncDispose]();
    await daemon.stop();
    this.#blame(this.#left());
    return judgeSoak(this.#evidence);
  }

  /** Starts the daemon and looks at what the one before left in the file and among the processes. */
  async #start(fleet: WorkerFleet): Promise<DaemonProcess> {
    const orphans = markedProcesses(this.#mark);
    const daemon = await startDaemon(this.#file);
    const cancelled = allCancelled(this.#ledgers);
    this.#blame(inspectAnytime(this.#file.database, { cancelled }));
    this.#blame(lostCompletions(this.#file.database, this.#leases));
    this.#address.url = daemon.url;
    fleet.moveTo(daemon.url);
    setTimeout(() => this.#blame(this.#left(orphans)), ORPHAN_MS_MAX).unref();
    return daemon;
  }

  /** Which of these processes still run; of all unless they are named. */
  #left(before: ReadonlySet<string> | null = null): readonly string[] {
    const now = [...markedProcesses(this.#mark)];
    const left = now.filter((each) => before === null || before.has(each));
    return left.map((each) => `process ${each} outlived its daemon`);
  }

  /** Samples a life until the returned controller is aborted. */
  #watch(daemon: DaemonProcess): AbortController {
    const samples: Sample[] = [];
    this.#lives.push(samples);
    const startedAt = performance.now();
    const sample = (): void => {
      // Nobody killed it: what waits for an answer must not wait for ever.
      if (!daemon.isRunning) this.#address.isOver = true;
      if (!daemon.isRunning) return;
      const { rssBytes } = processUsage(daemon.pid);
      const atMs = performance.now() - startedAt;
      samples.push({ atMs, rssBytes, descriptors: descriptorCount(daemon.pid) });
    };
    const watch = this.#newSpan();
    void every(() => SAMPLE_MS, { signal: watch.signal, act: sample });
    return watch;
  }

  /** Settles when the signal has come and nothing is under way any more. */
  async #troubles({ fleet, service }: Players, signal: AbortSignal): Promise<void> {
    const { workerKillEvery, serviceDeathEvery } = this.#options;
    const random = new Random(this.#random.fork());
    const draw = ({ min, max }: Span): number => random.between(min, max);
    const die = async (): Promise<void> => {
      this.#serviceDeaths++;
      await service.die(draw(SERVICE_DEATH));
    };
    const judge = (): void => {
      this.#blame(judgeSettled(this.#leases, Date.now() - SETTLED_MS));
    };
    await Promise.all([
      every(() => draw(workerKillEvery), { signal, act: () => fleet.killOne() }),
      every(() => draw(serviceDeathEvery), { signal, act: die }),
      every(() => JUDGE_MS, { signal, act: judge }),
    ]);
  }

  #blame(faults: readonly string[]): void {
    for (const fault of faults) {
      if (!this.#faults.has(fault)) this.#options.onNews(`FAULT: ${fault}`);
      this.#faults.add(fault);
    }
  }

  get #evidence() {
    const { database, folder } = this.#file;
    const seen = { ledgers: this.#ledgers, leases: this.#leases, book: this.#book };
    return { database, folder, ...seen, killedAt: this.#killedAt };
  }

  #report({
    tally,
    fleet,
    service,
    startedAt,
  }: Players & { readonly tally: SoakTally; readonly startedAt: number }): SoakReport {
    this.#blame(tally.faults);
    this.#blame(judgeFlat(this.#lives.at(-1) ?? []));
    return {
      ...tally,
      seconds: (performance.now() - startedAt) / 1000,
      acknowledged: this.#book.size,
      kills: this.#killedAt.length,
      workerKills: fleet.kills,
      serviceDeaths: this.#serviceDeaths,
      serviceRequests: service.requests,
      webhooks: this.#ledgers.reduce((sum, { count }) => sum + count.webhooks, 0),
      leases: this.#leases.count,
      lives: this.#lives,
      faults: [...this.#faults],
    };
  }
}
