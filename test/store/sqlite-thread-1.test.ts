import { exerciseStore } from "./conformance.ts";
import { openWith } from "./sqlite-writers.ts";

exerciseStore("sqlite with a writer thread", openWith("thread"), { part: 0, of: 2 });
