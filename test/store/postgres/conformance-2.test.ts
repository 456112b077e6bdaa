import { exercisePart } from "./conformance-store.ts";

exercisePart(1);
