import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";

import { ROOT } from "../manifest.ts";

/**
 * Packages of npm that are too large for every checkout, as the package.json of a folder names them. They are installed
 * in the cache of node_modules, once for each content of the lock, and none of their scripts runs.
 */
export class NpmPackages {
  /** Where they are installed: modules in it find them. */
  readonly folder: string;
  readonly #from: string;
  readonly #before: string | null;

  /** Without a lock the versions of what they depend on are those of the day `before`. */
  constructor(from: string, { before = null }: { readonly before?: string | null } = {}) {
    this.#from = from;
    this.#before = before;
    this.folder = join(ROOT, "node_modules", ".cache", basename(from));
  }

  get isInstalled(): boolean {
    const there = join(this.folder, this.#key);
    return (
      existsSync(there) && readFileSync(there).equals(readFileSync(join(this.#from, this.#key)))
    );
  }

  /** Makes npm install them unless they are. Throws, with npm's message, if it cannot. */
  install(): void {
    if (this.isInstalled) return;
    // In a folder next to their own and then moved: an interrupted installation does not count.
    const folder = `${this.folder}-${process.pid}`;
    mkdirSync(folder, { recursive: true });
    for (const file of new Set(["package.json", this.#key]))
      cpSync(join(this.#from, file), join(folder, file));
    const how = this.#before === null ? ["ci"] : ["install", `--before=${this.#before}`];
    const args = [...how, "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
    const { status, stderr } = spawnSync("npm", args, { cwd: folder, encoding: "utf8" });
    if (status !== 0) {
      rmSync(folder, { recursive: true, force: true });
      throw new Error(`npm could not install the packages of ${this.#from}: ${stderr}`);
    }
    this.#place(folder);
  }

  /** The file whose content decides whether they are installed. */
  get #key(): string {
    return this.#before === null ? "package-lock.json" : "package.json";
  }

  #place(folder: string): void {
    if (existsSync(this.folder) && !this.isInstalled) rmSync(this.folder, { recursive: true });
    try {
      renameSync(folder, this.folder);
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      // Another process was quicker, and may be running programs of its installation.
      if (!this.isInstalled) throw error;
    }
  }
}
