import { z } from "zod";

import { answerMessages, HelperProcess } from "../kit/helper-process.ts";

const order = z.union([
  z.object({ kind: z.literal("open"), port: z.number(), cookie: z.string(), count: z.number() }),
  z.object({ kind: z.literal("close") }),
]);

const heard = z.object({ changes: z.number(), requests: z.number() });

/** What open tabs heard and asked. */
export type TabsReport = Readonly<z.infer<typeof heard>>;

interface TabsPlace {
  readonly port: number;
  readonly cookie: string;
  readonly count: number;
}

/**
 * Open dashboards without a browser, in a process of their own: each has its stream of changes and asks again, after
 * them, what the page does: half of them what the overview shows, half the list of tasks. A browser's own work
 * would be measured with it on the same processors.
 */
export class OpenTabs {
  readonly #helper: HelperProcess;

  private constructor(helper: HelperProcess) {
    this.#helper = helper;
  }

  /** Opens them, and settles when each has its stream. */
  static async open(place: TabsPlace): Promise<OpenTabs> {
    const helper = new HelperProcess(new URL(import.meta.url));
    await helper.ask({ kind: "open", ...place });
    return new OpenTabs(helper);
  }

  async close(): Promise<TabsReport> {
    using helper = this.#helper;
    return heard.parse(await helper.ask({ kind: "close" }));
  }
}

const report = { changes: 0, requests: 0 };

// As the screens do: `everyMs` in their useResource.
const SCREENS = [
  { path: "/v1/stats/overview", everyMs: 5000 },
  { path: "/v1/tasks/search?q=", everyMs: 1000 },
];

async function openTab({ port, cookie }: TabsPlace, index: number): Promise<void> {
  const headers = {
    ...{ cookie, "x-requested-with": "postbackd", "x-refresh": "automatic" },
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

async function followChanges(body: ReadableStream<Uint8Array>, tell: () => void): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    const events = decoder.decode(chunk).split("event: change").length - 1;
    for (let i = 0; i < events; i++) tell();
  }
}

if (import.meta.main) {
  answerMessages(async (message) => {
    const wanted = order.parse(message);
    if (wanted.kind === "close") return report;
    await Promise.all(Array.from({ length: wanted.count }, (_, i) => openTab(wanted, i)));
    return report;
  });
}
