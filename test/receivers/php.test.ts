import { exerciseReceiver } from "./exercise.ts";
import { PHP } from "./languages.ts";

exerciseReceiver(PHP);
