import { helperProcess } from "../kit/helper-process.ts";

/** The changes that open tabs heard of, and their requests. */
export interface TabsReport {
  readonly changes: number;
  readonly requests: number;
}

interface TabsPlace {
  readonly port: number;
  readonly cookie: string;
  readonly count: number;
}

const report = { changes: 0, requests: 0 };

class Tabs {
  /** Settles when each has its stream. */
  async open(place: TabsPlace): Promise<void> {
    await Promise.all(Array.from({ length: place.count }, (_, i) => openTab(place, i)));
  }

  report(): TabsReport {
    return report;
  }
}

// As the screens do: `everyMs` in their useResource.
const SCREENS = [
  { path: "/v1/stats/overview", everyMs: 5000 },
  { path: "/v1/tasks/search?q=", everyMs: 1000 },
];

async function openTab({ port, cookie }: TabsPlace, index: number): Promise<void> {
  const headers = {
    cookie,
    "x-requested-with": "postbackd",
    "x-refresh": "automatic",
    "sec-fetch-site": "same-origin",
  };
  const origin = `http://127.0.0.1:${port}`;
  const response = await fetch(`${origin}/v1/events`, { headers });
  if (!response.ok || response.body === null) {
    throw new Error(`the stream was answered with ${response.status}`);
  }
  const screen = SCREENS[index % SCREENS.length];
  if (screen === undefined) throw new Error("there is no screen");
  let isPlanned = false;
  let askedAt = 0;
  const ask = async (): Promise<void> => {
    isPlanned = false;
    askedAt = performance.now();
    report.requests++;
    const answer = await fetch(origin + screen.path, { headers });
    await answer.arrayBuffer();
  };
  void followChanges(response.body, () => {
    report.changes++;
    if (isPlanned) return;
    isPlanned = true;
    const waitMs = Math.max(0, askedAt + screen.everyMs - performance.now());
    setTimeout(() => void ask(), waitMs);
  });
}

async function followChanges(
  body: ReadableStream<Uint8Array>,
  onChange: () => void,
): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    const events = decoder.decode(chunk).split("event: change").length - 1;
    for (let i = 0; i < events; i++) onChange();
  }
}

/**
 * Open dashboards without a browser, in a process of their own: each has its stream of changes and asks again, after
 * them, what the page does: half of them what the overview shows, half the list of tasks. A browser's own work
 * would be measured with it on the same processors.
 */
export class OpenTabs extends helperProcess(import.meta, Tabs) {}
