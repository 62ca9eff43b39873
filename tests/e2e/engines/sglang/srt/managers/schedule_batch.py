class Req:
    def __init__(self, rid, prompt, outputs):
        self.rid, self.prompt, self.left = rid, prompt, outputs


class ScheduleBatch:
    def __init__(self, reqs, forward_mode, extend_num_tokens=None):
        self.reqs, self.forward_mode, self.extend_num_tokens = reqs, forward_mode, extend_num_tokens

    def batch_size(self):
        return len(self.reqs)
