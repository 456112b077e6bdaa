import { exerciseStore } from "./conformance.ts";
import { openWith } from "./sqlite-writers.ts";

exerciseStore("sqlite with an inline writer", openWith("inline"));
