import { setTimeout as sleep } from "node:timers/promises";

import { carefulCall, type CarefulAnswer, type CarefulRequest } from "./careful-call.ts";
import type { DaemonProcess } from "./daemon-process.ts";

const RETRY_MS = 20;

/** Where the daemon is, for those who outlive it and go on with the next one. */
export class DaemonAddress {
  /** Null while there is none. */
  url: string | null = null;
  /** True when there will be none any more: who waits for an answer need not wait for ever. */
  isOver = false;

  /** From now on this daemon is asked. Where it ends and `url` was not cleared before, it was the last. */
  moveTo(daemon: DaemonProcess): void {
    this.url = daemon.url;
    void daemon.ended.then(() => {
      if (this.url === daemon.url) this.isOver = true;
    });
  }

  /** Waits for work that asks here; what is not answered in time is not asked again. */
  async within(ms: number, work: Promise<unknown>): Promise<void> {
    const timer = setTimeout(() => (this.isOver = true), ms);
    await work.finally(() => clearTimeout(timer));
  }

  /** One attempt. Null when nobody answered, or only 503, as while it starts: then nothing was done. */
  async try(path: string, request: CarefulRequest): Promise<CarefulAnswer | null> {
    const answer = this.url === null ? null : await carefulCall(`${this.url}${path}`, request);
    return answer?.status === 503 ? null : answer;
  }

  /**
   * Asks until there is an answer; `onCutOff` is called when one was awaited and did not come. Rejects when it is over.
   */
  async ask(
    path: string,
    request: CarefulRequest,
    onCutOff: () => void = () => {},
  ): Promise<CarefulAnswer> {
    while (!this.isOver) {
      const isAsked = this.url !== null;
      const answer = await this.try(path, request);
      if (answer !== null) return answer;
      if (isAsked) onCutOff();
      await sleep(RETRY_MS);
    }
    throw new Error(`${path} was never answered`);
  }
}
