import { randomBytes } from "node:crypto";

import { workDocument } from "../admin/account.ts";
import type { ChangeData } from "../api/stats.ts";
import type { Clock, Timer } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import type { Logger } from "../domain/log.ts";
import { StoreError, type Scope, type Store } from "../store/store.ts";
import {
  STREAMS_PER_CREDENTIAL_MAX,
  STREAMS_PER_ACCOUNT_MAX,
  STREAMS_MAX,
} from "./admission/limits.ts";
import { tooManyRequests } from "./admission/quota.ts";
import { LiveStream } from "./live-stream.ts";

interface LiveFeedDeps {
  readonly store: Pick<Store, "countWork" | "watch" | "cluster">;
  readonly clock: Clock;
  readonly log: Logger;
  /** Names this run of the daemon: every run has another name. */
  readonly boot: string;
}

export interface Listener {
  readonly scope: Scope;
  /** The key or session by which its streams are counted. */
  readonly credential: string;
  /** Called before everything that is sent. */
  readonly stillAdmitted: () => Promise<boolean>;
  /** The last event of the client's previous stream. */
  readonly lastEventId: string | null;
}

/** The least time between two changes that a stream is sent; changes in between are sent as one. */
const CHANGE_INTERVAL_MS = 250;
/** A stream is never silent for longer. */
const COMMENT_INTERVAL_MS = 15_000;
/** A stream ends at most this long after its session or key; another process may have ended that. */
const ADMISSION_INTERVAL_MS = 1000;

/** Makes a name for a run of the daemon. */
export function newBootName(): string {
  return randomBytes(6).toString("hex");
}

const RETRY_AFTER_SECONDS = 10;

/** The streams of one scope, which share the reads for them. */
interface Channel {
  readonly scope: Scope;
  readonly streams: Set<LiveStream>;
  /** By the monotonic clock: do not read again before. */
  nextAt: number;
  timer: Timer | null;
  isReading: boolean;
  /** The state that its streams were sent last, as text; null when nothing was. */
  shown: string | null;
}

const NEW_CHANNEL = { nextAt: 0, timer: null, isReading: false, shown: null };

/**
 * Sends open streams a change in their scope, with the current amount of work. Nothing is queued: a stream that takes
 * nothing is passed over until it does, and then gets the state of that moment.
 */
export class LiveFeed {
  readonly #deps: LiveFeedDeps;
  readonly #channels = new Map<Scope, Channel>();
  /** How often something of a scope has changed since the first stream was opened. */
  readonly #changes = new Map<Scope, number>();
  /** How many {@link #changes} were sent to streams. */
  readonly #sent = new Map<Scope, number>();
  #stopWatching: (() => void) | null = null;
  #admissionTimer: Timer | null = null;
  /** By the monotonic clock. */
  #commentAt = 0;
  #isClosed = false;

  constructor(deps: LiveFeedDeps) {
    this.#deps = deps;
  }

  /** Begins a stream of events. Throws 42900 when there are too many of this credential, or in all. */
  open({ scope, credential, stillAdmitted, lastEventId }: Listener): ReadableStream<Uint8Array> {
    this.#requirePlace(scope, credential);
    // Never stopped before the end: a stream that reconnects gets a change if it missed one.
    this.#stopWatching ??= this.#deps.store.watch(({ accounts }) => {
      for (const each of [null, ...accounts]) this.#changedIn(each);
    });
    const channel = this.#channelOf(scope);
    const stream = new LiveStream({
      credential,
      stillAdmitted,
      seen: this.#hasSeenAll(channel, lastEventId) ? this.#changesOf(scope) : -1,
      taken: () => this.#taken(stream, channel),
      gone: () => this.#remove(stream, channel),
    });
    if (this.#isClosed) {
      stream.end("stopping");
      return stream.body;
    }
    if (this.#channels.size === 1 && channel.streams.size === 0) {
      this.#commentAt = this.#deps.clock.monotonic() + COMMENT_INTERVAL_MS;
    }
    channel.streams.add(stream);
    this.#checkLater();
    return stream.body;
  }

  /**
   * A number that changes as soon as streams of a scope are sent a change: a client that asks after that must not get
   * a value that was read before.
   */
  sentChanges(scope: Scope): number {
    return this.#sent.get(scope) ?? 0;
  }

  /** Ends all streams, and immediately every stream that opens from now on. */
  close(): void {
    this.#isClosed = true;
    this.#stopWatching?.();
    for (const { streams } of this.#channels.values()) {
      for (const stream of streams) stream.end("stopping");
    }
  }

  #requirePlace(scope: Scope, credential: string): void {
    const all = [...this.#channels.values()].flatMap(({ streams }) => [...streams]);
    const ofAccount = scope === null ? 0 : (this.#channels.get(scope)?.streams.size ?? 0);
    const own = all.filter(({ options }) => options.credential === credential).length;
    let detail = null;
    if (ofAccount >= STREAMS_PER_ACCOUNT_MAX) {
      detail = `An account may have ${STREAMS_PER_ACCOUNT_MAX} open streams: close one first, or poll.`;
    } else if (own >= STREAMS_PER_CREDENTIAL_MAX) {
      detail = `A session or key may have ${STREAMS_PER_CREDENTIAL_MAX} open streams: close one first.`;
    } else if (all.length >= STREAMS_MAX) {
      detail = `${STREAMS_MAX} streams are open, as many as there may be: try again later, or poll.`;
    }
    if (detail !== null) throw tooManyRequests(RETRY_AFTER_SECONDS, { detail });
  }

  #channelOf(scope: Scope): Channel {
    const known = this.#channels.get(scope);
    if (known !== undefined) return known;
    const channel = { scope, streams: new Set<LiveStream>(), ...NEW_CHANNEL };
    this.#channels.set(scope, channel);
    return channel;
  }

  #remove(stream: LiveStream, channel: Channel): void {
    channel.streams.delete(stream);
    if (channel.streams.size > 0) return;
    channel.timer?.cancel();
    // Another one may have taken its place meanwhile.
    if (this.#channels.get(channel.scope) === channel) this.#channels.delete(channel.scope);
    if (this.#channels.size > 0) return;
    this.#admissionTimer?.cancel();
    this.#admissionTimer = null;
  }

  #changedIn(scope: Scope): void {
    this.#changes.set(scope, this.#changesOf(scope) + 1);
    const channel = this.#channels.get(scope);
    if (channel !== undefined) this.#plan(channel);
  }

  #changesOf(scope: Scope): number {
    return this.#changes.get(scope) ?? 0;
  }

  #eventId(scope: Scope): string {
    return `${this.#deps.boot}.${this.#changesOf(scope)}`;
  }

  // A new stream gets a change immediately; the other streams of its scope may then wait a little longer.
  #taken(stream: LiveStream, channel: Channel): void {
    if (stream.seen >= 0) {
      this.#plan(channel);
      return;
    }
    channel.nextAt = Math.max(channel.nextAt, this.#deps.clock.monotonic() + CHANGE_INTERVAL_MS);
    void this.#sendTo(channel, [stream]);
  }

  // Makes sure that streams which are behind and can take something get it, now or as soon as they may.
  #plan(channel: Channel): void {
    if (channel.timer !== null || channel.isReading) return;
    if (!this.#behind(channel).some((stream) => stream.takes)) return;
    const { clock } = this.#deps;
    const waitMs = channel.nextAt - clock.monotonic();
    if (waitMs <= 0) void this.#sendDue(channel);
    else channel.timer = clock.setTimer(waitMs, () => void this.#sendDue(channel));
  }

  /** In a cluster, a channel without an earlier change cannot detect changes of other nodes. */
  #hasSeenAll({ scope, shown }: Channel, lastEventId: string | null): boolean {
    const isKnown = !this.#deps.store.cluster.isShared || shown !== null;
    return isKnown && lastEventId === this.#eventId(scope);
  }

  #behind({ streams, scope }: Channel): LiveStream[] {
    const changes = this.#changesOf(scope);
    return [...streams].filter((stream) => stream.seen < changes);
  }

  async #sendDue(channel: Channel): Promise<void> {
    channel.timer = null;
    const now = this.#deps.clock.monotonic();
    channel.nextAt = now + CHANGE_INTERVAL_MS;
    const due = this.#behind(channel).filter(({ sentAt }) => now - sentAt >= CHANGE_INTERVAL_MS);
    channel.isReading = true;
    const isSent = await this.#sendTo(channel, due);
    channel.isReading = false;
    // A read that fails is tried again with the next change or comment.
    if (isSent) this.#plan(channel);
  }

  /** Sends these streams the present state, with one read; false where it cannot be read. */
  async #sendTo(channel: Channel, streams: readonly LiveStream[]): Promise<boolean> {
    const { scope } = channel;
    try {
      const admitted = await this.#stillAdmitted(streams);
      if (admitted.length === 0) return true;
      // Counted before the read: a change committed in between is sent, and then sent again.
      const changes = this.#changesOf(scope);
      const id = this.#eventId(scope);
      const tasks = workDocument(await this.#deps.store.countWork(scope));
      const shown = JSON.stringify(tasks);
      const isNews = channel.shown !== null && channel.shown !== shown;
      channel.shown = shown;
      const { clock, store } = this.#deps;
      const data: ChangeData = { tasks, time: timeText(clock.now()) };
      const change = { id, changes, data: JSON.stringify(data), now: clock.monotonic() };
      this.#sent.set(scope, changes);
      for (const stream of admitted) stream.change(change);
      // A change by another node is news to the streams that this was not sent to.
      const isUnheard = store.cluster.isShared && isNews && changes === this.#changesOf(scope);
      if (isUnheard && admitted.length < channel.streams.size) this.#changedIn(scope);
      return true;
    } catch (error) {
      if (!(error instanceof StoreError)) {
        this.#deps.log.error({ err: error }, "a change cannot be sent to the event streams");
      }
      return false;
    }
  }

  async #stillAdmitted(streams: readonly LiveStream[]): Promise<readonly LiveStream[]> {
    const verdicts = await Promise.all(streams.map(({ options }) => options.stillAdmitted()));
    const admitted = streams.filter((_, at) => verdicts[at]);
    for (const stream of streams) if (!admitted.includes(stream)) stream.end("signed_out");
    return admitted;
  }

  /** Polls for changes of other nodes, because notifications may be lost. */
  async #look({ scope, shown }: Channel): Promise<void> {
    if (shown === null) return;
    const tasks = JSON.stringify(workDocument(await this.#deps.store.countWork(scope)));
    if (tasks !== shown) this.#changedIn(scope);
  }

  #checkLater(): void {
    const { clock } = this.#deps;
    this.#admissionTimer ??= clock.setTimer(ADMISSION_INTERVAL_MS, () => {
      this.#admissionTimer = null;
      if (this.#channels.size > 0) this.#checkLater();
      const now = clock.monotonic();
      const isDue = now >= this.#commentAt;
      if (isDue) this.#commentAt = now + COMMENT_INTERVAL_MS;
      void this.#check(isDue);
    });
  }

  async #check(isCommentDue: boolean): Promise<void> {
    try {
      const all = [...this.#channels.values()];
      const admitted = await this.#stillAdmitted(all.flatMap(({ streams }) => [...streams]));
      if (this.#deps.store.cluster.isShared) await Promise.all(all.map((each) => this.#look(each)));
      if (!isCommentDue) return;
      for (const stream of admitted) stream.comment();
      for (const channel of all) this.#plan(channel);
    } catch (error) {
      if (error instanceof StoreError) return;
      this.#deps.log.error({ err: error }, "event streams cannot be served");
    }
  }
}
