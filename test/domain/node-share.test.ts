import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { ALONE, shareOfAll, shareOfHost } from "../../src/domain/webhook/delivery.ts";

const NODES = fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 12 });
const LIMIT = fc.integer({ min: 1, max: 600 });
const HOST = fc.webAuthority();

function sharesOf(max: number, host: string, members: readonly string[]): readonly number[] {
  return members.map((self) => shareOfHost(max, host, { self, members }));
}

test("a single node has every slot", () => {
  assert.equal(shareOfHost(32, "a.example", ALONE), 32);
  assert.equal(shareOfAll(512, ALONE), 512);
});

test("the shares of a host add up to its limit and differ by at most one", () => {
  fc.assert(
    fc.property(NODES, LIMIT, HOST, (members, max, host) => {
      const shares = sharesOf(max, host, members);
      assert.equal(
        shares.reduce((sum, share) => sum + share, 0),
        max,
      );
      assert(Math.max(...shares) - Math.min(...shares) <= 1);
    }),
  );
});

test("every node computes the same shares, for any order of the members", () => {
  fc.assert(
    fc.property(NODES, LIMIT, HOST, (members, max, host) => {
      const turned = members.toReversed();
      assert.deepEqual(sharesOf(max, host, turned).toReversed(), sharesOf(max, host, members));
    }),
  );
});

test("a host with a limit of 1 belongs to exactly one node", () => {
  fc.assert(
    fc.property(NODES, HOST, (members, host) => {
      const shares = sharesOf(1, host, members);
      assert.deepEqual(
        shares.filter((share) => share > 0),
        [1],
      );
    }),
  );
});

test("the end of a node moves only its own hosts", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.uuid(), { minLength: 2, maxLength: 12 }),
      HOST,
      (members, host) => {
        const ownerOf = (nodes: readonly string[]) => nodes[sharesOf(1, host, nodes).indexOf(1)];
        const owner = ownerOf(members);
        const [gone] = members.filter((each) => each !== owner);
        assert.equal(ownerOf(members.filter((each) => each !== gone)), owner);
      },
    ),
  );
});

test("four nodes own about a quarter of the hosts each", () => {
  const members = [1, 2, 3, 4].map((n) => `0190f1a0-0000-7000-8000-00000000000${n}`);
  const owned = members.map((self) => {
    const hosts = Array.from({ length: 1000 }, (_, i) => `shop-${i}.example`);
    return hosts.filter((host) => shareOfHost(1, host, { self, members }) === 1).length;
  });
  for (const hosts of owned) assert(hosts > 180 && hosts < 320, owned.join());
});

test("the slots for all hosts are rounded up, so every node has one", () => {
  const among = (n: number) => ({ members: Array.from({ length: n }, (_, i) => String(i)) });
  assert.deepEqual(
    [1, 2, 3, 600].map((n) => shareOfAll(512, among(n))),
    [512, 256, 171, 1],
  );
});
