import { exerciseStore, openWith } from "./conformance.ts";

exerciseStore("sqlite with a writer thread", openWith("thread"));
