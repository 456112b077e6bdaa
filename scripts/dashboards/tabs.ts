import { helperProcess } from "../kit/helper-process.ts";
import { pageHeaders } from "../kit/sign-in.ts";

// As the screens do: `everyMs` in their useResource.
const SCREENS = [
  { path: "/v1/stats/overview", everyMs: 5000 },
  { path: "/v1/tasks/search?q=", everyMs: 1000 },
];

interface Tab {
  readonly origin: string;
  readonly headers: Record<string, string>;
  readonly screen: (typeof SCREENS)[number];
}

class Tabs {
  /** The changes that they heard of, and their requests. */
  readonly #report = { changes: 0, requests: 0 };

  /** Settles when each has its stream. */
  async open(place: {
    readonly port: number;
    readonly cookie: string;
    readonly count: number;
  }): Promise<void> {
    const origin = `http://127.0.0.1:${place.port}`;
    const headers = { ...pageHeaders(place.cookie), "x-refresh": "automatic" };
    const opening = Array.from({ length: place.count }, async (_, i) => {
      const screen = SCREENS[i % SCREENS.length];
      if (screen !== undefined) await this.#openTab({ origin, headers, screen });
    });
    await Promise.all(opening);
  }

  report(): { readonly changes: number; readonly requests: number } {
    return this.#report;
  }

  async #openTab(tab: Tab): Promise<void> {
    const { origin, headers } = tab;
    const { ok, status, body } = await fetch(`${origin}/v1/events`, { headers });
    if (!ok || body === null) throw new Error(`the stream was answered with ${status}`);
    void this.#follow(body, tab);
  }

  async #follow(body: ReadableStream<Uint8Array>, { origin, headers, screen }: Tab): Promise<void> {
    const decoder = new TextDecoder();
    let isPlanned = false;
    let askedAt = 0;
    const ask = async (): Promise<void> => {
      isPlanned = false;
      askedAt = performance.now();
      this.#report.requests++;
      const answer = await fetch(origin + screen.path, { headers });
      await answer.arrayBuffer();
    };
    for await (const chunk of body) {
      const changes = decoder.decode(chunk).split("event: change").length - 1;
      this.#report.changes += changes;
      if (changes === 0 || isPlanned) continue;
      isPlanned = true;
      const waitMs = Math.max(0, askedAt + screen.everyMs - performance.now());
      setTimeout(() => void ask(), waitMs);
    }
  }
}

/**
 * Open dashboards without a browser, in a process of their own: each has its stream of changes and asks again, after
 * them, what the page does: half of them what the overview shows, half the list of tasks. A browser's own work
 * would be measured with it on the same processors.
 */
export class OpenTabs extends helperProcess(import.meta, Tabs) {}
