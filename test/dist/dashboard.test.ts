import assert from "node:assert/strict";
import { test } from "node:test";

import { hasBrowser, openPage, signIn } from "../dashboard/browser.ts";
import { exchange, headerOf } from "../helpers/raw-http.ts";
import { emptyPlace, startService } from "./binary.ts";

test("the executable has the compressed dashboard, with immutable assets", async (t) => {
  const { url } = await startService(t, emptyPlace(t));
  const page = await exchange(url, { target: "/dashboard/" });
  assert.equal(page.status, 200);
  const assets = [...page.body.toString().matchAll(/(?:src|href)="([^"]+)"/g)].map(
    ([, at = ""]) => at,
  );
  // The style, the icon, the first script and those that it needs.
  const needed = assets.filter((at) => at.includes("/chunk-"));
  assert.equal(assets.length - needed.length, 3);
  // The page does not name the operator's script: one of its own scripts does.
  const scripts = assets.filter((at) => at.endsWith(".js"));
  const bodies = await Promise.all(scripts.map((target) => exchange(url, { target })));
  const [operators = ""] = /screens-\w{8}\.js/.exec(bodies.map(({ body }) => body).join("")) ?? [];
  for (const target of [...assets, `/dashboard/assets/${operators}`]) {
    assert.match(target, /^\/dashboard\/assets\/[a-z]+-[\dA-Za-z]{8,}\.(js|css|svg)$/);
    const headers = ["Accept-Encoding: br"];
    const asset = await exchange(url, { target, headers });
    assert.equal(asset.status, 200, target);
    assert.equal(headerOf(asset, "cache-control"), "public, max-age=31536000, immutable");
    const isText = !target.endsWith(".svg");
    if (isText) assert.equal(headerOf(asset, "content-encoding"), "br", target);
    assert(asset.body.length > 0 && asset.body.length < 64 * 1024, target);
  }
});

test("an account signs in at the dashboard of the executable", async (t) => {
  if (!hasBrowser(t)) return;
  const { url, key } = await startService(t, emptyPlace(t));
  const { page } = await openPage(t, url);
  await signIn(page, { login: "tester", key, secret: "" });
  await page.getByText("Live", { exact: true }).waitFor();
  await page.close();
});
