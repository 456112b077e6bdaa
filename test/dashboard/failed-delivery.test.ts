import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import type { TestDaemon } from "../helpers/daemon.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { mark, openPage, signIn, takeSteps } from "./browser.ts";

const TOML = "[webhooks]\nretry_after = []\n";

test("a failed delivery", (t) =>
  takeSteps(
    t,
    {
      "is found, explained and sent again by keyboard alone": isSentByKeyboard,
      "is sent again from the list, without the delivered one, by keyboard alone":
        isRedeliveredFromList,
      "is sent again together with the delivered one by a separate choice": isArrivedSentByChoice,
      "is redelivered with all others of its host after a count": isRedelivered,
    },
    { toml: TOML },
  ));

/** Posts a task whose webhook is given up, and one whose webhook is delivered. */
async function failDeliveries(
  daemon: TestDaemon,
  receiver: Receiver,
  tag: string,
): Promise<string> {
  const seen = receiver.requests.length;
  receiver.answerNext(
    { kind: "status", status: 503, body: "The shop is closed for stocktaking." },
    { kind: "status", status: 204 },
  );
  const [task] = (await daemon.post([{ tag, postback_url: receiver.url("/hook") }])).tasks;
  await receiver.waitFor(seen + 1);
  await daemon.post([{ tag: "order-fine", postback_url: receiver.url("/hook") }]);
  await receiver.waitFor(seen + 2);
  return task?.id ?? "";
}

async function press(page: Page, ...keys: readonly string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key);
}

async function isSentByKeyboard(t: TestContext, daemon: TestDaemon): Promise<void> {
  const receiver = await startReceiver(t);
  const id = await failDeliveries(daemon, receiver, "order-17");
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  await page.goto("/dashboard/tasks");
  await page.getByText("order-17").waitFor();
  const isSame = await mark(page);

  await press(page, "/");
  await page.keyboard.type("delivery:given_up tag:order-17");
  await press(page, "Enter");
  // The old list goes before the new one is there, and keys move in what is there.
  await page.getByText("order-fine").waitFor({ state: "detached" });
  await page.getByText("order-17").waitFor();
  assert.equal(new URL(page.url()).searchParams.get("q"), "delivery:given_up tag:order-17");
  // Out of the field, into the list.
  await press(page, "Escape", "j", "k", "Enter");
  await page.getByRole("heading", { name: id }).waitFor();

  await press(page, "j", "Enter");
  const attempt = page.getByRole("region", { name: "The postback" });
  await attempt.getByText("HTTP 503", { exact: false }).first().waitFor();
  await attempt.getByText("The shop is closed for stocktaking.").waitFor();
  const reason = await attempt.locator(".explanation").textContent();
  assert.match(reason ?? "", /503/);

  await press(page, "r");
  await page.getByRole("status").filter({ hasText: "The webhook is due now." }).waitFor();
  await attempt.getByText("delivered", { exact: true }).first().waitFor();
  await receiver.waitFor(3);
  await isSame();
  await press(page, "u");
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
  await isSame();
}

async function isRedeliveredFromList(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { failing, fine } = await failPostback(t, daemon, "order-18");
  const { page, row } = await openList(t, daemon, "tag:order-18");

  await press(page, "j", "r");
  const asked = page.getByRole("dialog", { name: "Redeliver 1 task?" });
  await asked.waitFor();
  await press(page, "Escape");
  await asked.waitFor({ state: "detached" });
  assert.deepEqual([failing.requests.length, fine.requests.length], [1, 1]);
  await press(page, "r");
  await asked.waitFor();
  await focusOn(page, "Redeliver 1");
  await press(page, "Enter");
  await row.getByText("given up").waitFor({ state: "detached" });
  await daemon.daemon.idle();
  assert.deepEqual([failing.requests.length, fine.requests.length], [2, 1]);
  assert.equal(await row.getAttribute("aria-current"), "true");
}

/** Posts a task whose postback is given up and whose pingback is delivered. */
async function failPostback(t: TestContext, daemon: TestDaemon, tag: string) {
  const failing = await startReceiver(t, { reply: { kind: "status", status: 503 } });
  const fine = await startReceiver(t);
  const urls = { postback_url: failing.url("/post"), pingback_url: fine.url("/ping") };
  await daemon.post([{ tag, ...urls }]);
  await daemon.daemon.idle();
  failing.answer({ kind: "status", status: 204 });
  return { failing, fine };
}

async function openList(t: TestContext, daemon: TestDaemon, q: string) {
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  await page.goto(`/dashboard/tasks?q=${q}`);
  const row = page.getByRole("row").filter({ hasText: q.split(":")[1] ?? "" });
  await row.getByText("delivered", { exact: true }).waitFor();
  return { page, row };
}

async function isArrivedSentByChoice(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { failing, fine } = await failPostback(t, daemon, "order-whole");
  const { page, row } = await openList(t, daemon, "tag:order-whole");

  await row.getByRole("checkbox").check();
  await page.getByRole("button", { name: "Redeliver 1", exact: true }).click();
  await page.getByLabel("Also send webhooks that arrived").check();
  const asked = page.getByRole("dialog", { name: "Send all webhooks of 1 task again?" });
  await asked.getByRole("button", { name: "Send 1 again" }).click();
  await row.getByText("given up").waitFor({ state: "detached" });
  await daemon.daemon.idle();
  assert.deepEqual([failing.requests.length, fine.requests.length], [2, 2]);

  // No delivery has failed: nothing is sent without the choice.
  await page.getByRole("button", { name: "Redeliver…", exact: true }).click();
  const none = page.getByRole("dialog", { name: "Nothing was given up or refused" });
  await none.getByText("1 selected task left out").waitFor();
  assert(await none.getByRole("button", { name: "Redeliver 0" }).isDisabled());
  await page.getByLabel("Also send webhooks that arrived").check();
  await asked.getByRole("button", { name: "Send 1 again" }).click();
  await Promise.all([failing.waitFor(3), fine.waitFor(3)]);
  await daemon.daemon.idle();
  assert.deepEqual([failing.requests.length, fine.requests.length], [3, 3]);
}

async function focusOn(page: Page, name: string): Promise<void> {
  for (let i = 0; i < 10; i++) {
    if ((await page.evaluate("document.activeElement?.textContent")) === name) return;
    await press(page, "Tab");
  }
  assert.fail(`Tab does not lead to ${name}`);
}

async function isRedelivered(t: TestContext, daemon: TestDaemon): Promise<void> {
  const receiver = await startReceiver(t);
  await failDeliveries(daemon, receiver, "order-19");
  await failDeliveries(daemon, receiver, "order-20");
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  await page.goto("/dashboard/hosts");
  const { host } = receiver;
  await page.getByRole("button", { name: `Redeliver failed deliveries to ${host}` }).click();
  const dialog = page.getByRole("dialog", { name: "Redeliver failed deliveries" });
  await dialog.getByRole("button", { name: "Count them" }).click();
  await dialog.getByRole("button", { name: /^Redeliver 2 deliveries at \d+ a second/ }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await receiver.waitFor(6)).length, 6);
  const order = page.getByRole("group", { name: "Redelivery orders" }).getByRole("row").nth(1);
  await order.getByText(host).waitFor();
  await order.getByText("completed").waitFor();
}
