import { existsSync } from "node:fs";

import { chromium, type Browser } from "playwright-core";

import { median } from "../kit/durations.ts";
import { signIn, type DashboardPlace } from "../kit/sign-in.ts";
import { verdict } from "../kit/text-table.ts";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const LOADS = 15;
const FIRST_PAINT_MS_MAX = 300;

/** How soon the overview is there, in milliseconds from the navigation. */
interface Paint {
  /** The first paint of any content. */
  readonly firstMs: number;
  /** When the numbers stand there. */
  readonly numbersMs: number;
}

/** Opens the overview in Chromium, each time in a profile without a cache, and says how soon it was there. */
export async function measurePaint(place: DashboardPlace): Promise<string> {
  if (!existsSync(CHROMIUM))
    return "first paint: not measured, there is no Chromium (apt-get install chromium)\n";
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  try {
    const origin = `http://127.0.0.1:${place.daemon.port}`;
    const cookie = await signIn(place);
    const paints: Paint[] = [];
    for (let i = 0; i <= LOADS; i++) paints.push(await load(browser, { origin, cookie }));
    // The first starts parts of the browser itself.
    return paintText(paints.slice(1));
  } finally {
    await browser.close();
  }
}

async function load(
  browser: Browser,
  { origin, cookie }: { readonly origin: string; readonly cookie: string },
): Promise<Paint> {
  const [name = "", value = ""] = cookie.split("=");
  await using context = await browser.newContext();
  await context.addCookies([{ name, value, url: origin }]);
  const page = await context.newPage();
  await page.goto(`${origin}/dashboard/`);
  const numbers = page.getByRole("link", { name: /Waiting/ });
  await numbers.first().waitFor();
  const numbersMs = await page.evaluate<number>("performance.now()");
  const firstMs = await page.evaluate<number>(
    `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN`,
  );
  return { firstMs, numbersMs };
}

function paintText(paints: readonly Paint[]): string {
  const first = paints.map(({ firstMs }) => firstMs);
  const numbersMs = median(paints.map((paint) => paint.numbersMs));
  const slowest = Math.max(...first);
  return (
    `first paint: median ${median(first).toFixed(0)} ms, slowest of ${first.length} ` +
    `${slowest.toFixed(0)} ms: ${verdict(slowest <= FIRST_PAINT_MS_MAX)} (${FIRST_PAINT_MS_MAX} ms)\n` +
    `numbers shown: median ${numbersMs.toFixed(0)} ms\n`
  );
}
