import { computed, effect, signal } from "@preact/signals";

import type { ChangeData, WorkCounts } from "../../api/stats.ts";
import { headersFor, signedOut } from "./api.ts";
import { setTime } from "./clock.ts";
import { actsFor } from "./route.ts";
import { session } from "./session.ts";

/** Keeps one stream of changes for this tab while it is visible. Without a stream, the page polls every ten seconds. */

/** How the page learns of changes. */
export type LiveState = "connecting" | "live" | "polling" | "paused";

export const liveState = signal<LiveState>("connecting");

export const changes = signal(0);

/** The counts that came with the last change; null before the first. */
export const liveCounts = signal<WorkCounts | null>(null);

const POLL_MS = 10_000;
const RETRY_MS = 2000;
// The daemon sends something every 15 s.
const SILENCE_MS_MAX = 40_000;

const isSeen = signal(document.visibilityState === "visible");
document.addEventListener("visibilitychange", () => {
  isSeen.value = document.visibilityState === "visible";
});

const scope = computed(() =>
  session.value === null ? null : `${session.value.role} ${actsFor.value ?? ""}`,
);

/** Follows the changes of the shown data; returns a function that stops it. */
export function startLive(): () => void {
  let lastId: string | null = null;
  let lastScope: string | null = null;
  return effect(() => {
    const wanted = scope.value;
    if (wanted !== lastScope) {
      lastId = null;
      liveCounts.value = null;
    }
    lastScope = wanted;
    if (wanted === null || !isSeen.value) {
      liveState.value = "paused";
      return;
    }
    const stop = new AbortController();
    void follow(stop.signal, { lastId, heard: (id) => (lastId = id) });
    return () => stop.abort();
  });
}

interface Following {
  readonly lastId: string | null;
  readonly heard: (id: string) => void;
}

async function follow(stop: AbortSignal, { lastId, heard }: Following): Promise<void> {
  let id = lastId;
  liveState.value = "connecting";
  while (!stop.aborted) {
    const wasLive = await listen(stop, id, (message) => {
      if (message.id !== null) heard((id = message.id));
      take(message);
    });
    if (stop.aborted) return;
    liveState.value = "polling";
    changes.value++;
    // A stream that broke may be back soon, after a restart. One that was refused is not asked for all the time.
    await pause(wasLive ? RETRY_MS : POLL_MS, stop);
  }
}

interface Message {
  readonly id: string | null;
  readonly event: string;
  readonly data: string;
}

function take({ event, data }: Message): void {
  if (event === "end" && data.includes('"signed_out"')) signedOut.value++;
  if (event !== "change") return;
  // Our own daemon wrote it.
  const { tasks, time }: ChangeData = JSON.parse(data);
  setTime(time);
  liveCounts.value = tasks;
  changes.value++;
}

/** Reads one stream until it ends, breaks off, or is silent for too long. False where none was to be had. */
async function listen(
  stop: AbortSignal,
  lastId: string | null,
  take: (message: Message) => void,
): Promise<boolean> {
  let isLive = false;
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
  const headers = headersFor({ isAutomatic: true });
  headers.set("Accept", "text/event-stream");
  if (lastId !== null) headers.set("Last-Event-ID", lastId);
  try {
    const signals = AbortSignal.any([stop, silence.signal]);
    const response = await fetch("/v1/events", { headers, signal: signals, cache: "no-store" });
    if (response.status === 401) signedOut.value++;
    if (!response.ok || response.body === null) return false;
    isLive = true;
    liveState.value = "live";
    const text = response.body.pipeThrough(new TextDecoderStream());
    let rest = "";
    for await (const chunk of iterate(text)) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
      const blocks = (rest + chunk).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) take(toMessage(block));
    }
  } catch {
    // After any end of the stream the page polls, and opens another stream.
  } finally {
    clearTimeout(timer);
  }
  return isLive;
}

// Safari's streams cannot be iterated.
async function* iterate(stream: ReadableStream<string>): AsyncGenerator<string> {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

function toMessage(block: string): Message {
  const fields = { id: null as string | null, event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [name, ...rest] = line.split(": ");
    const value = rest.join(": ");
    if (name === "id") fields.id = value;
    else if (name === "event") fields.event = value;
    else if (name === "data") fields.data += value;
  }
  return fields;
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
