// Written by types.mjs from docs/openapi.json.

export type Accepted = {
  image_id: string;
  filename: string;
  duplicate: boolean;
  restored: boolean;
};

export type Box = {
  box: [number, number, number, number] | null;
  label: string;
  confidence: number | null;
};

export type CaptionHit = {
  rank: number;
  caption_id: number;
  text: string;
  image_id: string;
  score: number;
  probability: number | null;
  shortlist_rank: number;
  explanation?: ExplanationAnswer | null;
};

export type ExplanationAnswer = {
  kind: "words attend regions" | "regions attend words" | "weights" | "text";
  words: Array<Token>;
  contributions: Array<number> | null;
  regions: Array<Box>;
  attention: Array<Array<number>> | null;
  shares: Array<Array<number>> | null;
  word_weights: Array<number> | null;
  region_weights: Array<number> | null;
};

export type FailureAnswer = {
  image_id: string;
  filename: string;
  reason: string;
  attempts: number;
};

export type FailuresAnswer = {
  failures: Array<FailureAnswer>;
  next: string | null;
};

export type FieldProblem = {
  field: string;
  problem: string;
};

export type ImageAnswer = {
  model: string;
  model_digest: string;
  k: number;
  shortlist: number;
  index_version: string;
  cached: boolean;
  left_out: number;
  matched: boolean | null;
  shards?: ShardCountsAnswer | null;
  target: "captions" | "images";
  query?: string | null;
  unknown_words?: Array<string> | null;
  read_as?: Record<string, string> | null;
  note?: string | null;
  results: Array<CaptionHit> | Array<PictureHit>;
  timings_ms: ImageTimings;
};

export type ImageInfo = {
  image_id: string;
  filename: string;
  url: string | null;
  thumbnail_url: string | null;
  width: number | null;
  height: number | null;
  state: "queued" | "ready" | "failed" | "deleted";
  taken_at: string | null;
  added_at: string;
  deleted_at?: string | null;
  captions: Array<string>;
  tags: Record<string, string | number>;
  num_bytes: number;
  kind: string;
  extractor: string | null;
  regions: Array<Box> | null;
  failure: FailureAnswer | null;
};

export type ImageListed = {
  image_id: string;
  filename: string;
  url: string | null;
  thumbnail_url: string | null;
  width: number | null;
  height: number | null;
  state: "queued" | "ready" | "failed" | "deleted";
  taken_at: string | null;
  added_at: string;
  deleted_at?: string | null;
  captions: Array<string>;
  tags: Record<string, string | number>;
};

export type ImageTimings = {
  encode: number;
  shortlist: number;
  rerank: number;
  total: number;
  load?: number | null;
  detect: number;
};

export type ImagesAnswer = {
  images: Array<ImageListed>;
  next: string | null;
  total: number | null;
  queued: number | null;
};

export type IngestAnswer = {
  job_id: string;
  status_url: string;
  accepted: Array<Accepted>;
  rejected: Array<Rejected>;
};

export type JobAnswer = {
  job_id: string;
  state: "queued" | "running" | "done";
  total: number;
  done: number;
  failed: number;
  failures: Array<FailureAnswer>;
};

export type JobListed = {
  job_id: string;
  created_at: string;
  state: "queued" | "running" | "done";
  total: number;
  done: number;
  failed: number;
};

export type JobsAnswer = {
  jobs: Array<JobListed>;
};

export type LiveAnswer = {
  status: "alive";
};

export type MigrationAnswer = {
  extractor: string;
  former: Array<string>;
  done: number;
  total: number;
  seconds_left: number | null;
  message: string;
};

export type ModelListed = {
  name: string;
  digest: string;
  default: boolean;
  loaded: boolean;
  calibrated: boolean;
  state: "ready" | "building" | "not built";
  pictures: number;
  captions: number;
  missing_pictures: number;
  missing_captions: number;
};

export type ModelsAnswer = {
  models: Array<ModelListed>;
  collection: string | null;
  migration: MigrationAnswer | null;
};

export type NearDuplicateAnswer = {
  image_id: string;
  filename: string;
  thumbnail_url: string | null;
  bits: number;
};

export type Period = {
  gte?: string | null;
  lte?: string | null;
};

export type Permission = "read" | "write" | "admin";

export type PictureEdit = {
  captions?: Array<string> | null;
  tags?: Record<string, string | number | null> | null;
  taken_at?: string | null;
  filename?: string;
};

export type PictureFilter = {
  tags?: Record<string, string | number | Array<string | number> | Range>;
  taken_at?: Period | string | null;
};

export type PictureHit = {
  rank: number;
  image_id: string;
  found_by: Array<"pictures" | "text">;
  score: number | null;
  probability: number | null;
  shortlist_rank: number | null;
  url: string | null;
  thumbnail_url: string | null;
  width: number | null;
  height: number | null;
  filename: string;
  taken_at: string | null;
  captions: Array<string>;
  tags: Record<string, string | number>;
  near_duplicates?: Array<NearDuplicateAnswer> | null;
  explanation?: ExplanationAnswer | null;
};

export type ProblemAnswer = {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance: string;
  errors?: Array<FieldProblem> | null;
};

export type Range = {
  gte?: string | number | null;
  lte?: string | number | null;
};

export type ReadyAnswer = {
  status: "ready";
  checks: Record<string, string>;
};

export type RegionsAnswer = {
  image_id: string;
  width: number | null;
  height: number | null;
  extractor: string;
  regions: Array<Box>;
};

export type Rejected = {
  filename: string;
  problem: string;
  retryable: boolean;
};

export type RetryAnswer = {
  job_id: string;
  status_url: string;
};

export type SessionAnswer = {
  required: boolean;
  permission: Permission | null;
  key_id: string | null;
  name: string | null;
};

export type SessionRequest = {
  key: string;
};

export type ShardCountsAnswer = {
  asked: number;
  answered: number;
};

export type TagListed = {
  name: string;
  pictures: number;
  distinct_values: number;
  values: Array<TagValue>;
};

export type TagValue = {
  value: string | number;
  pictures: number;
};

export type TagsAnswer = {
  tags: Array<TagListed>;
  next: string | null;
};

export type TextAnswer = {
  model: string;
  model_digest: string;
  k: number;
  shortlist: number;
  index_version: string;
  cached: boolean;
  left_out: number;
  matched: boolean | null;
  shards?: ShardCountsAnswer | null;
  query: string;
  match: "pictures" | "text" | "both";
  matched_by_pictures: boolean | null;
  unknown_words: Array<string>;
  read_as: Record<string, string>;
  note?: string | null;
  results: Array<PictureHit>;
  timings_ms: TextTimings;
};

export type TextSearchRequest = {
  k?: number;
  shortlist?: number;
  model?: string | null;
  explain?: boolean;
  min_score?: number | null;
  min_probability?: number | null;
  group_near_duplicates?: boolean;
  filter?: PictureFilter | null;
  partial?: boolean;
  query: string;
  match?: "pictures" | "text" | "both";
  sort?: "relevance" | "date";
};

export type TextTimings = {
  encode: number;
  shortlist: number;
  rerank: number;
  total: number;
  load?: number | null;
  text: number;
};

export type Token = {
  text: string;
  special: boolean;
  content: boolean;
};
