import { InstanceLock } from "../../src/store/sqlite/machine/instance-lock.ts";

/**
 * A process that takes the lock of a database file, announces the URL it is given, if any, and holds the lock
 * until its input ends or it is killed. It says `held`, or why it could not.
 */

const [file = "", url] = process.argv.slice(2);
try {
  const lock = InstanceLock.acquire(file);
  if (url !== undefined) lock.announce(url);
  process.stdin.resume().once("end", () => lock.release());
  process.stdout.write("held\n");
} catch (error) {
  process.stdout.write(`${String(error)}\n`);
}
