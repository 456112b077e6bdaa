import { existsSync } from "node:fs";

import { chromium } from "playwright-core";

import { signIn, type DashboardPlace } from "../kit/sign-in.ts";

/** How soon the overview is there, in milliseconds from the navigation, for each load. */
export interface PaintReport {
  /** The first paint of any content. */
  readonly firstPaintMs: readonly number[];
  /** When the numbers stand there. */
  readonly numbersMs: readonly number[];
}

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const LOADS = 15;

/** Opens the overview in Chromium, each time in a profile without a cache; null where there is no Chromium. */
export async function measurePaint(place: DashboardPlace): Promise<PaintReport | null> {
  if (!existsSync(CHROMIUM)) return null;
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  try {
    const origin = `http://127.0.0.1:${place.daemon.port}`;
    const [name = "", value = ""] = (await signIn(place)).split("=");
    const report = { firstPaintMs: [] as number[], numbersMs: [] as number[] };
    // The first starts parts of the browser itself.
    for (let i = 0; i <= LOADS; i++) {
      const context = await browser.newContext();
      await context.addCookies([{ name, value, url: origin }]);
      const page = await context.newPage();
      await page.goto(`${origin}/dashboard/`);
      await page
        .getByRole("link", { name: /Waiting/ })
        .first()
        .waitFor();
      const numbersMs = await page.evaluate<number>("performance.now()");
      const firstPaintMs = await page.evaluate<number>(
        `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN`,
      );
      if (i > 0) {
        report.firstPaintMs.push(firstPaintMs);
        report.numbersMs.push(numbersMs);
      }
      await context.close();
    }
    return report;
  } finally {
    await browser.close();
  }
}
